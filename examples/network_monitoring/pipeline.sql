-- Packets with the same destination that pass three routers within half a second: the query with which the
-- papers on joining distributed streams begin. The packets are made up; the same options give the same ones.
-- Run it: watersmeet run examples/network_monitoring/pipeline.sql --available-now --flush

CREATE STREAM r1 (dest STRING, src STRING, size BIGINT, ts TIMESTAMP)
  WITH (format = 'watersmeet-generator', stream = 'r1', event_time = 'ts', lateness = '200 ms', site = 'paris',
        rate = '2000', keys = '3000', skew = '0.6', seed = '1', disorder = '200 ms',
        rows = '20000', rows_per_batch = '5000');

CREATE STREAM r2 (dest STRING, src STRING, size BIGINT, ts TIMESTAMP)
  WITH (format = 'watersmeet-generator', stream = 'r2', event_time = 'ts', lateness = '200 ms', site = 'lyon',
        rate = '2000', keys = '3000', skew = '0.6', seed = '1', disorder = '200 ms',
        rows = '20000', rows_per_batch = '5000');

CREATE STREAM r3 (dest STRING, src STRING, size BIGINT, ts TIMESTAMP)
  WITH (format = 'watersmeet-generator', stream = 'r3', event_time = 'ts', lateness = '200 ms', site = 'lille',
        rate = '1000', keys = '3000', skew = '0.6', seed = '1', disorder = '200 ms',
        rows = '10000', rows_per_batch = '2500');

CREATE SINK common WITH (format = 'parquet', path = 'out');

INSERT INTO common
SELECT a.dest, a.size AS size_1, b.size AS size_2, c.size AS size_3, answer_time
FROM r1 [RANGE 500 MILLISECONDS] AS a, r2 [RANGE 500 MILLISECONDS] AS b, r3 [RANGE 500 MILLISECONDS] AS c
WHERE a.dest = b.dest AND b.dest = c.dest;
