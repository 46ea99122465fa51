-- PMJoin (DASFAA 2006), Example 1: traffic for one destination host seen by three routers within half a second.
-- pipeline.stats.json holds the paper's Table 1; every tuple is one byte. make_tuples.py makes the tuples.
-- Run it: watersmeet sites examples/sites/pmjoin-example-1/pipeline.sql --available-now --flush
CREATE SITE n1 WITH (master = 'local[1]');
CREATE SITE n2 WITH (master = 'local[1]');
CREATE SITE n3 WITH (master = 'local[1]');

CREATE STREAM s1 (dest STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s1', event_time = 'ts', site = 'n1');
CREATE STREAM s2 (dest STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s2', event_time = 'ts', site = 'n2');
CREATE STREAM s3 (dest STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s3', event_time = 'ts', site = 'n3');

CREATE SINK out WITH (format = 'parquet', path = 'out');

INSERT INTO out
SELECT s1.dest, s1.ts AS ts_1, s2.ts AS ts_2, s3.ts AS ts_3, answer_time
FROM s1 [RANGE 500 MILLISECONDS], s2 [RANGE 500 MILLISECONDS], s3 [RANGE 500 MILLISECONDS]
WHERE s1.dest = s2.dest AND s2.dest = s3.dest;
