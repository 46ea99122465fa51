-- DHTJoin (extended version), the query of section 5, whose completeness under bounded memory is analysed.
-- Rates as in section 6: 30 tuples/s, so each window holds 9000 tuples.
CREATE STREAM s1 (x BIGINT, payload STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s1', event_time = 'ts');
CREATE STREAM s2 (x BIGINT, payload STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s2', event_time = 'ts');

SELECT *
FROM s1 [RANGE 5 MIN], s2 [RANGE 5 MIN]
WHERE s1.x = s2.x;
