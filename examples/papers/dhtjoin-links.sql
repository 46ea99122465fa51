-- DHTJoin (Euro-Par 2008), section 1: traffic common to three links within ten minutes.
-- The paper gives no numbers for the query; rates and values as in dhtjoin-q1, links of different load.
CREATE STREAM l1 (pid BIGINT, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/l1', event_time = 'ts');
CREATE STREAM l2 (pid BIGINT, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/l2', event_time = 'ts');
CREATE STREAM l3 (pid BIGINT, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/l3', event_time = 'ts');

SELECT SUM(l1.size)
FROM l1 [RANGE 10 MIN], l2 [RANGE 10 MIN], l3 [RANGE 10 MIN]
WHERE l1.pid = l2.pid AND l2.pid = l3.pid;
