-- Semijoin (Tran and Lee 2010), Figure 10: four days of the 1998 World Cup site's access logs, joined on the client.
-- semijoin-world-cup.stats.json holds the settings in the figure's caption; the window is the one of 800 ms.
CREATE STREAM day_30 (client_id BIGINT, object_id BIGINT, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/day_30', event_time = 'ts', site = 'n1');
CREATE STREAM day_31 (client_id BIGINT, object_id BIGINT, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/day_31', event_time = 'ts', site = 'n2');
CREATE STREAM day_32 (client_id BIGINT, object_id BIGINT, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/day_32', event_time = 'ts', site = 'n3');
CREATE STREAM day_33 (client_id BIGINT, object_id BIGINT, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'data/day_33', event_time = 'ts', site = 'n4');

SELECT a.client_id, a.object_id, b.object_id AS object_31, c.object_id AS object_32, d.object_id AS object_33, answer_time
FROM day_30 [RANGE 800 MILLISECONDS] AS a, day_31 [RANGE 800 MILLISECONDS] AS b,
  day_32 [RANGE 800 MILLISECONDS] AS c, day_33 [RANGE 800 MILLISECONDS] AS d
WHERE a.client_id = b.client_id AND b.client_id = c.client_id AND c.client_id = d.client_id;
