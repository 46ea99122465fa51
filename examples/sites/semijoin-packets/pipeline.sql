-- Semijoin (Tran and Lee 2010), Example 1: packets to one destination seen by three routers within an hour.
-- pipeline.stats.json holds the rates and values of make_tuples.py.
-- Run it: watersmeet sites examples/sites/semijoin-packets/pipeline.sql --available-now --flush
CREATE SITE north WITH (master = 'local[1]');
CREATE SITE east WITH (master = 'local[1]');
CREATE SITE west WITH (master = 'local[1]');

CREATE STREAM s1 (id BIGINT, dest STRING, body STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/s1', event_time = 'ts', site = 'north');
CREATE STREAM s2 (id BIGINT, dest STRING, body STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/s2', event_time = 'ts', site = 'east');
CREATE STREAM s3 (id BIGINT, dest STRING, body STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/s3', event_time = 'ts', site = 'west');

CREATE SINK out WITH (format = 'parquet', path = 'out');

INSERT INTO out
SELECT s1.id AS id_1, s2.id AS id_2, s3.id AS id_3, s1.dest, s1.body AS body_1, s3.body AS body_3, answer_time
FROM s1 [RANGE 1 HOUR], s2 [RANGE 1 HOUR], s3 [RANGE 1 HOUR]
WHERE s1.dest = s2.dest AND s2.dest = s3.dest;
