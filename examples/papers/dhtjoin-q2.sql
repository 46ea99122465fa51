-- DHTJoin (extended version), query q2, of type 2: a pipeline from the key B to the key C.
-- Rates and values as in section 6, but for Z, which has 5 tuples/s here so that one order is better.
CREATE STREAM x (a BIGINT, b BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/x', event_time = 'ts');
CREATE STREAM y (b BIGINT, c BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/y', event_time = 'ts');
CREATE STREAM z (c BIGINT, d BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/z', event_time = 'ts');

SELECT y.b, z.c
FROM x [RANGE 5 MIN], y [RANGE 5 MIN], z [RANGE 5 MIN]
WHERE x.b = y.b AND y.c = z.c;
