-- DHTJoin (extended version), query q1, of type 1: traffic to one host through three routers within ten minutes.
-- Rates and values as in section 6: 30 tuples/s, 1000 values, Zipf 0.9, of which the 20 most frequent are listed.
CREATE STREAM s1 (dest BIGINT, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s1', event_time = 'ts');
CREATE STREAM s2 (dest BIGINT, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s2', event_time = 'ts');
CREATE STREAM s3 (dest BIGINT, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s3', event_time = 'ts');

SELECT SUM(s1.size)
FROM s1 [RANGE 10 MIN], s2 [RANGE 10 MIN], s3 [RANGE 10 MIN]
WHERE s1.dest = s2.dest AND s2.dest = s3.dest;
