-- Semijoin (Tran and Lee 2010), Example 2: articles of two news services with the same set of keywords, within a day.
-- The paper gives no numbers for it; those beside are ours. Sets are compared as sorted arrays.
CREATE STREAM associated_press (headline STRING, body STRING, keywords ARRAY<STRING>, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/associated_press', event_time = 'ts', site = 'new_york');
CREATE STREAM reuters (headline STRING, body STRING, keywords ARRAY<STRING>, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/reuters', event_time = 'ts', site = 'london');

SELECT a.headline, r.headline AS reuters_headline, answer_time
FROM associated_press [RANGE 1 DAY] AS a, reuters [RANGE 1 DAY] AS r
WHERE array_sort(a.keywords) = array_sort(r.keywords);
