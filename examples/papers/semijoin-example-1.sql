-- Semijoin (Tran and Lee 2010), Example 1: packets with the same destination that passed three routers in an hour.
-- The paper gives no numbers for it. Those beside are ours: a quiet, a middling and a busy router, on the paper's network.
CREATE STREAM s1 (dest STRING, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s1', event_time = 'ts', site = 'router_1');
CREATE STREAM s2 (dest STRING, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s2', event_time = 'ts', site = 'router_2');
CREATE STREAM s3 (dest STRING, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s3', event_time = 'ts', site = 'router_3');

SELECT s1.dest, s1.size AS size_1, s2.size AS size_2, s3.size AS size_3, answer_time
FROM s1 [RANGE 1 HOUR], s2 [RANGE 1 HOUR], s3 [RANGE 1 HOUR]
WHERE s1.dest = s2.dest AND s2.dest = s3.dest;
