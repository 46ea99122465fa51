-- Orders with the customer as the database had it at that moment. The changes come from Debezium: an envelope
-- with the row before and after, the operation (c, u or d), and the time of the change in milliseconds.
-- Run it: watersmeet run examples/changelog/pipeline.sql --available-now --flush

CREATE STREAM orders (id BIGINT, customer BIGINT, amount DECIMAL(10,2), ts TIMESTAMP)
  WITH (format = 'json', path = 'data/orders', event_time = 'ts', lateness = '5 seconds');

CREATE STREAM changes (
  before STRUCT<id: BIGINT, name: STRING, tier: STRING>, after STRUCT<id: BIGINT, name: STRING, tier: STRING>,
  op STRING, ts_ms BIGINT
) WITH (format = 'json', path = 'data/changes', event_time = 'ts_ms', event_time_unit = 'milliseconds',
        lateness = '5 seconds');

CREATE VIEW customers AS
SELECT CAST(coalesce(after.id, before.id) AS BIGINT) AS id, CAST(after.name AS STRING) AS name,
       CAST(after.tier AS STRING) AS tier, op, event_time AS since
FROM changes;

CREATE SINK enriched WITH (format = 'parquet', path = 'out');

INSERT INTO enriched
SELECT o.id, o.amount, c.name, c.tier
FROM orders AS o, customers [PARTITION BY id ROWS 1] AS c
WHERE o.customer = c.id AND c.op <> 'd' AND c.since <= o.ts;
