-- RJoin (EDBT 2008), the four-way join of section 8, here under sliding windows (section 5).
-- As in section 8, the stream of the next tuple is drawn by Zipf 0.9 of ten streams, 100 tuples/s together: these are
-- the first four. Values: 100 a column, Zipf 0.9, of which the 20 most frequent are listed. The windows are ours.
CREATE STREAM r (a BIGINT, b BIGINT, c BIGINT, d BIGINT, e BIGINT, f BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/r', event_time = 'ts');
CREATE STREAM s (a BIGINT, b BIGINT, c BIGINT, d BIGINT, e BIGINT, f BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s', event_time = 'ts');
CREATE STREAM j (a BIGINT, b BIGINT, c BIGINT, d BIGINT, e BIGINT, f BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/j', event_time = 'ts');
CREATE STREAM k (a BIGINT, b BIGINT, c BIGINT, d BIGINT, e BIGINT, f BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/k', event_time = 'ts');

SELECT r.a, s.c, j.c AS j_c, k.d, answer_time
FROM r [RANGE 1 SECOND], s [RANGE 1 SECOND], j [RANGE 1 SECOND], k [RANGE 1 SECOND]
WHERE r.a = s.b AND s.c = j.f AND j.c = k.d;
