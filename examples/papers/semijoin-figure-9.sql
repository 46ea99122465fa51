-- Semijoin (Tran and Lee 2010), section 5.3.2: a four-way chain in which all streams are alike.
-- semijoin-figure-9.stats.json holds the settings in the caption of Figure 9; an attribute has 5 bytes.
CREATE STREAM s1 (a STRING, b STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s1', event_time = 'ts', site = 'n1');
CREATE STREAM s2 (a STRING, b STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s2', event_time = 'ts', site = 'n2');
CREATE STREAM s3 (a STRING, b STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s3', event_time = 'ts', site = 'n3');
CREATE STREAM s4 (a STRING, b STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/s4', event_time = 'ts', site = 'n4');

SELECT s1.a, s2.b, s4.b AS last_b, answer_time
FROM s1 [RANGE 1200 MILLISECONDS], s2 [RANGE 1200 MILLISECONDS], s3 [RANGE 1200 MILLISECONDS], s4 [RANGE 1200 MILLISECONDS]
WHERE s1.b = s2.a AND s2.b = s3.a AND s3.b = s4.a;
