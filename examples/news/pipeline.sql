-- Articles of two news services on the same topic within a day. An article carries a set of keywords, written
-- in any order, and two are on the same topic when the sets are equal.
-- Run it: watersmeet run examples/news/pipeline.sql --available-now --flush

CREATE STREAM press (keywords ARRAY<STRING>, article BIGINT, published TIMESTAMP)
  WITH (format = 'watersmeet-generator', stream = 'press', event_time = 'published', lateness = '10 minutes',
        rate = '0.02', keys = '2000', skew = '0.8', seed = '7', text = 'topic {}', values = '1000000',
        disorder = '10 minutes', rows = '5000', rows_per_batch = '1000');

CREATE STREAM wire (keywords ARRAY<STRING>, article BIGINT, published TIMESTAMP)
  WITH (format = 'watersmeet-generator', stream = 'wire', event_time = 'published', lateness = '10 minutes',
        rate = '0.02', keys = '2000', skew = '0.8', seed = '7', text = 'topic {}', values = '1000000',
        disorder = '10 minutes', rows = '5000', rows_per_batch = '1000');

CREATE SINK pairs WITH (format = 'parquet', path = 'out');

INSERT INTO pairs
SELECT array_sort(a.keywords) AS keywords, a.article AS of_press, b.article AS of_wire, answer_time
FROM press [RANGE 1 DAY] AS a, wire [RANGE 1 DAY] AS b
WHERE array_sort(a.keywords) = array_sort(b.keywords);
