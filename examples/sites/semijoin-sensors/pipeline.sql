-- Semijoin (Tran and Lee 2010), Example 3: temperature, humidity and light of the same room within 15 minutes.
-- pipeline.stats.json holds the rates and values of make_tuples.py.
-- Run it: watersmeet sites examples/sites/semijoin-sensors/pipeline.sql --available-now --flush
CREATE SITE basement WITH (master = 'local[1]');
CREATE SITE lobby WITH (master = 'local[1]');
CREATE SITE roof WITH (master = 'local[1]');

CREATE STREAM temperature (sid BIGINT, rid BIGINT, celsius DOUBLE, note STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/temperature', event_time = 'ts', site = 'basement');
CREATE STREAM humidity (sid BIGINT, rid BIGINT, percent DOUBLE, note STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/humidity', event_time = 'ts', site = 'lobby');
CREATE STREAM light (sid BIGINT, rid BIGINT, lux DOUBLE, note STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/light', event_time = 'ts', site = 'roof');

CREATE SINK out WITH (format = 'parquet', path = 'out');

INSERT INTO out
SELECT t.sid AS sid_t, h.sid AS sid_h, l.sid AS sid_l, t.rid, t.celsius, h.percent, l.lux, t.note AS note, answer_time
FROM temperature [RANGE 15 MINUTES] AS t, humidity [RANGE 15 MINUTES] AS h, light [RANGE 15 MINUTES] AS l
WHERE t.rid = h.rid AND h.rid = l.rid;
