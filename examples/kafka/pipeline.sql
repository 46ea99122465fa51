-- Packets with the same destination that pass three routers within half a second, from Kafka into Kafka.
-- Run it: watersmeet run examples/kafka/pipeline.sql

CREATE STREAM r1 (dest STRING, size BIGINT, ts TIMESTAMP)
  WITH (format = 'kafka', bootstrap = 'localhost:9092', topic = 'packets-r1', startingOffsets = 'earliest',
        event_time = 'ts', lateness = '5 seconds', dead_letters = 'letters');

CREATE STREAM r2 (dest STRING, size BIGINT, ts TIMESTAMP)
  WITH (format = 'kafka', bootstrap = 'localhost:9092', topic = 'packets-r2', startingOffsets = 'earliest',
        event_time = 'ts', lateness = '5 seconds', dead_letters = 'letters');

CREATE STREAM r3 (dest STRING, size BIGINT, ts TIMESTAMP)
  WITH (format = 'kafka', bootstrap = 'localhost:9092', topic = 'packets-r3', startingOffsets = 'earliest',
        event_time = 'ts', lateness = '5 seconds', dead_letters = 'letters');

CREATE SINK common WITH (format = 'kafka', bootstrap = 'localhost:9092', topic = 'common', key = 'dest');

CREATE SINK letters WITH (format = 'json', path = 'letters');

INSERT INTO common
SELECT a.dest, a.size AS size_1, b.size AS size_2, c.size AS size_3, answer_time
FROM r1 [RANGE 500 MILLISECONDS] AS a, r2 [RANGE 500 MILLISECONDS] AS b, r3 [RANGE 500 MILLISECONDS] AS c
WHERE a.dest = b.dest AND b.dest = c.dest;
