"""Functions that give another value each time are refused where answers are kept."""

from __future__ import annotations

import pytest

from watersmeet.errors import SqlError
from watersmeet.sql import parse_pipeline

FILE = """
CREATE STREAM s (k BIGINT, v STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 's', event_time = 'ts');
CREATE SINK out WITH (format = '{format}', path = 'out');
INSERT INTO out SELECT a.k, {what} FROM s [RANGE 1 MINUTE] AS a WHERE {condition};
"""


def bind(what: str = "a.v", condition: str = "true", format: str = "parquet") -> None:
    parse_pipeline(FILE.format(what=what, condition=condition, format=format))


@pytest.mark.parametrize(
    ("what", "advice"),
    [
        ("current_timestamp() AS at", "Select answer_time"),
        ("CURRENT_TIMESTAMP AS at", "Select answer_time"),
        ("date_trunc('hour', now()) AS at", "Select answer_time"),
        ("current_date() AS at", "Select answer_time"),
        ("localtimestamp() AS at", "Select answer_time"),
        ("curdate() AS at", "Select answer_time"),
        ("unix_timestamp() AS at", "Select answer_time"),
        ("unix_timestamp(/* of when? */) AS at", "Select answer_time"),
        ("`current_timestamp`() AS at", "Select answer_time"),
        ("builtin.now() AS at", "Select answer_time"),
        ("TIMESTAMP 'now' AS at", "Select answer_time"),
        ("timestamp_ntz 'Now UTC' AS at", "Select answer_time"),
        ("DATE' yesterday' AS at", "Select answer_time"),
        ("CAST('today' AS DATE) AS at", "Select answer_time"),
        ("'tomorrow'::timestamp AS at", "Select answer_time"),
        ("to_timestamp('now') AS at", "Select answer_time"),
        ("date('Today') AS at", "Select answer_time"),
        ("`date_add`('today', 1) AS at", "Select answer_time"),
        ("extract(hour FROM ' now ') AS at", "Select answer_time"),
        ("a.ts < 'now' AS late", "Select answer_time"),
        ("coalesce(a.ts, 'now UTC') AS at", "Select answer_time"),
        ("'today' - INTERVAL 1 DAY AS at", "Select answer_time"),
        ("`rand`() AS x", "xxhash64"),
        ("uuid() AS id", "xxhash64"),
        ("Uuid() AS id", "xxhash64"),
        ("a.k + rand() AS x", "xxhash64"),
        ("rand(42) AS x", "xxhash64"),
        ("random() AS x", "xxhash64"),
        ("randn() AS x", "xxhash64"),
        ("shuffle(array(1, 2)) AS x", "xxhash64"),
        ("monotonically_increasing_id() AS x", "depends on how Spark divides the work"),
        ("spark_partition_id() AS x", "depends on how Spark divides the work"),
        ("upper(input_file_name()) AS x", "depends on how Spark divides the work"),
    ],
)
def test_they_are_refused_with_what_to_write(what: str, advice: str) -> None:
    with pytest.raises(SqlError, match="gives another value when a batch is done again") as refusal:
        bind(what)
    assert advice in refusal.value.advice
    bind(what, format="console")


def test_conditions_count_and_neither_arguments_of_time_nor_names_of_columns_do() -> None:
    with pytest.raises(SqlError, match="rand gives another value"):
        bind(condition="rand() < 0.5")
    bind("unix_timestamp(a.ts) AS at, a.v AS uuid, 'now()' AS text, xxhash64(a.k) AS id, answer_time")
    bind("TIMESTAMP '2025-01-01' AS at, DATE 'epoch' AS day, CAST('now' AS STRING) AS text, 'today' AS word")
    bind("concat(a.v, 'now') AS text, a.ts > 'now or never' AS b", condition="a.v = 'today' AND a.v <> 'now'")
