CREATE STREAM s1 (
  dest STRING, size BIGINT, host STRING, tags ARRAY<STRING>, addr STRUCT<city: STRING, zip: INT>, ts TIMESTAMP
) WITH (format = 'parquet', path = 'data/s1', event_time = 'ts', lateness = '5 seconds', site = 'paris');

CREATE STREAM s2 (
  dest STRING, size INT, host STRING, tags ARRAY<STRING>, price DECIMAL(10, 2), ts TIMESTAMP
) WITH (format = 'parquet', path = 'data/s2', event_time = 'ts');

CREATE STREAM s3 (dest STRING, size DOUBLE, host STRING, ts TIMESTAMP_NTZ)
  WITH (format = 'parquet', path = 'data/s3', event_time = 'ts');
