CREATE STREAM s1 (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 's1', event_time = 'ts', lateness = '2 seconds', 'option.maxFilesPerTrigger' = '1');
CREATE STREAM s2 (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 's2', event_time = 'ts', lateness = '2 seconds', 'option.maxFilesPerTrigger' = '1');
CREATE STREAM s3 (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 's3', event_time = 'ts', lateness = '2 seconds', 'option.maxFilesPerTrigger' = '1');
CREATE SINK out WITH (format = 'parquet', path = 'out');
INSERT INTO out
SELECT DISTINCT a.k, a.v AS va, b.v AS vb, c.v AS vc FROM s1 [RANGE 4 SECONDS] AS a, s2 [RANGE 3 SECONDS] AS b, s3 [TUMBLE 6 SECONDS] AS c WHERE a.k = b.k AND b.k = c.k;
