-- PMJoin (DASFAA 2006), Example 2: five streams at three nodes, joined on different attributes.
-- pipeline.stats.json holds Table 2, as examples/papers/pmjoin-example-2.stats.json does; every tuple is one byte.
-- Run it: watersmeet sites examples/sites/pmjoin-example-2/pipeline.sql --available-now --flush \
--   --plan "distributed, Algorithm 1"
CREATE SITE n0 WITH (master = 'local[1]');
CREATE SITE n1 WITH (master = 'local[1]');
CREATE SITE n2 WITH (master = 'local[1]');

CREATE STREAM s0 (id BIGINT, a BIGINT, b BIGINT, d BIGINT, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/s0', event_time = 'ts', site = 'n0');
CREATE STREAM s1 (id BIGINT, a BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s1', event_time = 'ts', site = 'n0');
CREATE STREAM s2 (id BIGINT, b BIGINT, c BIGINT, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/s2', event_time = 'ts', site = 'n1');
CREATE STREAM s3 (id BIGINT, c BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s3', event_time = 'ts', site = 'n1');
CREATE STREAM s4 (id BIGINT, d BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s4', event_time = 'ts', site = 'n2');

CREATE SINK out WITH (format = 'parquet', path = 'out');

INSERT INTO out
SELECT s0.id AS id_0, s1.id AS id_1, s2.id AS id_2, s3.id AS id_3, s4.id AS id_4, answer_time
FROM s0 [RANGE 10 SECONDS], s1 [RANGE 10 SECONDS], s2 [RANGE 10 SECONDS], s3 [RANGE 10 SECONDS], s4 [RANGE 10 SECONDS]
WHERE s0.a = s1.a AND s0.b = s2.b AND s2.c = s3.c AND s0.d = s4.d;
