-- Semijoin (Tran and Lee 2010), Example 2: articles of two news services on the same topic within a day.
-- A topic is the set of an article's keywords, an array in order. pipeline.stats.json holds what make_tuples.py makes.
-- Run it: watersmeet sites examples/sites/semijoin-news/pipeline.sql --available-now --flush
CREATE SITE paris WITH (master = 'local[1]');
CREATE SITE oslo WITH (master = 'local[1]');

CREATE STREAM ap (id BIGINT, keywords ARRAY<STRING>, title STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/ap', event_time = 'ts', lateness = '1 minute', site = 'paris');
CREATE STREAM reuters (id BIGINT, keywords ARRAY<STRING>, title STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/reuters', event_time = 'ts', lateness = '1 minute', site = 'oslo');

CREATE SINK out WITH (format = 'parquet', path = 'out');

INSERT INTO out
SELECT a.id AS id_1, r.id AS id_2, a.title AS title_1, r.title AS title_2, answer_time
FROM ap [RANGE 1 DAY] AS a, reuters [RANGE 1 DAY] AS r
WHERE a.keywords = r.keywords;
