-- Orders that nobody has paid within an hour.
-- Run it: watersmeet run examples/unpaid_orders/pipeline.sql --available-now --flush

CREATE STREAM orders (id BIGINT, customer STRING, amount DECIMAL(10,2), ts TIMESTAMP)
  WITH (format = 'json', path = 'data/orders', event_time = 'ts', lateness = '5 seconds');
CREATE STREAM payments (order_id BIGINT, amount DECIMAL(10,2), ts TIMESTAMP)
  WITH (format = 'json', path = 'data/payments', event_time = 'ts', lateness = '5 seconds');

CREATE SINK unpaid WITH (format = 'parquet', path = 'out');

INSERT INTO unpaid
SELECT o.id, o.customer, o.amount, o.ts
FROM orders AS o
WHERE NOT EXISTS (
  SELECT 1 FROM payments AS p
  WHERE p.order_id = o.id AND p.amount >= o.amount
    AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 1 HOUR
);
