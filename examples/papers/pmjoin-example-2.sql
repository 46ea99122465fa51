-- PMJoin (DASFAA 2006), Example 2: five streams at three nodes, joined on different attributes.
-- pmjoin-example-2.stats.json holds Table 2 (every window is ten seconds) and the selectivities that its derived
-- columns imply: 0.01 for s0-s1, 0.001 for s2-s3, 0.004 between s0 and s2,3. Two facts are only in the paper's
-- drawing: that s0 meets s2,3 through s2, and the 0.01 of s0-s4; any value above 1/120 gives the same plan.
CREATE STREAM s0 (a BIGINT, b BIGINT, d BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s0', event_time = 'ts', site = 'n0');
CREATE STREAM s1 (a BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s1', event_time = 'ts', site = 'n0');
CREATE STREAM s2 (b BIGINT, c BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s2', event_time = 'ts', site = 'n1');
CREATE STREAM s3 (c BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s3', event_time = 'ts', site = 'n1');
CREATE STREAM s4 (d BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s4', event_time = 'ts', site = 'n2');

SELECT s0.a, s0.b, s2.c, s0.d, answer_time
FROM s0 [RANGE 10 SECONDS], s1 [RANGE 10 SECONDS], s2 [RANGE 10 SECONDS], s3 [RANGE 10 SECONDS], s4 [RANGE 10 SECONDS]
WHERE s0.a = s1.a AND s0.b = s2.b AND s2.c = s3.c AND s0.d = s4.d;
