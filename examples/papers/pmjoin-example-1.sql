-- PMJoin (DASFAA 2006), Example 1: traffic for one destination host seen by three routers within half a second.
-- pmjoin-example-1.stats.json holds Table 1; every tuple is one byte.
CREATE STREAM s1 (dest STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s1', event_time = 'ts', site = 'n1');
CREATE STREAM s2 (dest STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s2', event_time = 'ts', site = 'n2');
CREATE STREAM s3 (dest STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s3', event_time = 'ts', site = 'n3');

SELECT s1.dest, answer_time
FROM s1 [RANGE 500 MILLISECONDS], s2 [RANGE 500 MILLISECONDS], s3 [RANGE 500 MILLISECONDS]
WHERE s1.dest = s2.dest AND s2.dest = s3.dest;
