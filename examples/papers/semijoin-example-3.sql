-- Semijoin (Tran and Lee 2010), Example 3: temperature, humidity and light of the same room within a quarter of an hour.
-- The paper gives no numbers for it; those beside are ours: 200 rooms, the light sensors the most talkative.
CREATE STREAM temperature (sid BIGINT, rid BIGINT, celsius DOUBLE, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/temperature', event_time = 'ts', site = 'temperature_sink');
CREATE STREAM humidity (sid BIGINT, rid BIGINT, percent DOUBLE, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/humidity', event_time = 'ts', site = 'humidity_sink');
CREATE STREAM light (sid BIGINT, rid BIGINT, lux DOUBLE, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/light', event_time = 'ts', site = 'light_sink');

SELECT t.rid, t.celsius, h.percent, l.lux, answer_time
FROM temperature [RANGE 15 MINUTES] AS t, humidity [RANGE 15 MINUTES] AS h, light [RANGE 15 MINUTES] AS l
WHERE t.rid = h.rid AND h.rid = l.rid;
