-- Clicks with the session they belong to, and with the price that was shown.
-- Run it: watersmeet run examples/prices_as_of/pipeline.sql --available-now --flush

CREATE STREAM logins (visitor BIGINT, session STRING, device STRING, ts TIMESTAMP)
  WITH (format = 'json', path = 'data/logins', event_time = 'ts', lateness = '5 seconds');
CREATE STREAM clicks (visitor BIGINT, product STRING, ts TIMESTAMP)
  WITH (format = 'json', path = 'data/clicks', event_time = 'ts', lateness = '5 seconds');
CREATE STREAM prices (product STRING, price DECIMAL(10,2), ts TIMESTAMP)
  WITH (format = 'json', path = 'data/prices', event_time = 'ts', lateness = '5 seconds');

CREATE SINK seen WITH (format = 'parquet', path = 'out');

INSERT INTO seen
SELECT s.session, s.device, c.product, p.price, c.ts
FROM clicks AS c, logins [PARTITION BY visitor ROWS 1] AS s, prices [PARTITION BY product ROWS 1] AS p
WHERE c.visitor = s.visitor AND c.product = p.product AND s.ts <= c.ts AND p.ts <= c.ts;
