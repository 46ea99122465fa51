-- Temperature, humidity and light measured in the same room within fifteen minutes, by sensors that each send
-- to a sink of their kind. Rooms that are warm and damp at once are of interest.
-- Run it: watersmeet run examples/building_sensors/pipeline.sql --available-now --flush

CREATE STREAM temperature (room STRING, sensor INT, celsius DOUBLE, ts TIMESTAMP)
  WITH (format = 'watersmeet-generator', stream = 'temperature', event_time = 'ts', lateness = '30 seconds',
        rate = '5', keys = '400', seed = '3', text = 'room {}', values = '40', disorder = '30 seconds',
        rows = '9000', rows_per_batch = '3000');

CREATE STREAM humidity (room STRING, sensor INT, percent DOUBLE, ts TIMESTAMP)
  WITH (format = 'watersmeet-generator', stream = 'humidity', event_time = 'ts', lateness = '30 seconds',
        rate = '5', keys = '400', seed = '3', text = 'room {}', values = '100', disorder = '30 seconds',
        rows = '9000', rows_per_batch = '3000');

CREATE STREAM light (room STRING, sensor INT, lux DOUBLE, ts TIMESTAMP)
  WITH (format = 'watersmeet-generator', stream = 'light', event_time = 'ts', lateness = '30 seconds',
        rate = '1', keys = '400', seed = '3', text = 'room {}', values = '1000', disorder = '30 seconds',
        rows = '1800', rows_per_batch = '600');

CREATE SINK readings WITH (format = 'parquet', path = 'out');

INSERT INTO readings
SELECT t.room, t.celsius, h.percent, l.lux, answer_time
FROM temperature [RANGE 15 MINUTES] AS t, humidity [RANGE 15 MINUTES] AS h, light [RANGE 15 MINUTES] AS l
WHERE t.room = h.room AND h.room = l.room AND t.celsius > 30 AND h.percent > 70;
