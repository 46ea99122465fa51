-- RJoin (EDBT 2008), Example 2: each answer once, whatever the number of tuples that lead to it.
-- Values as in section 8: 100 a column, Zipf 0.9, of which the 20 most frequent are listed; rates are ours.
CREATE STREAM r (a1 BIGINT, a2 BIGINT, a3 BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/r', event_time = 'ts');
CREATE STREAM s (b1 BIGINT, b2 BIGINT, b3 BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s', event_time = 'ts');

SELECT DISTINCT r.a1, s.b1
FROM r, s
WHERE r.a2 = s.b2;
