-- RJoin (EDBT 2008), query q1 of section 3, without windows.
-- Values as in section 8: 100 a column, Zipf 0.9, of which the 20 most frequent are listed; rates are ours.
CREATE STREAM r (a BIGINT, b BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/r', event_time = 'ts');
CREATE STREAM s (a BIGINT, b BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s', event_time = 'ts');
CREATE STREAM p (b BIGINT, c BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/p', event_time = 'ts');

SELECT r.b, s.b
FROM r, s, p
WHERE r.a = s.a AND s.b = p.b;
