from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from watersmeet.errors import ConfigurationError
from watersmeet.query import Column, parse_duration
from watersmeet.spark.generator.data_source import GeneratorStreamReader
from watersmeet.spark.generator.generator import FORMAT, generate, parse_options

TYPES = [
    "string", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,20)",
    "decimal(3,3)", "boolean", "date", "timestamp", "timestamp_ntz", "binary", "array<string>", "array<int>",
]  # fmt: skip
EVERY_TYPE = [Column(f"c{place}", kind) for place, kind in enumerate(TYPES)]


@given(start=st.integers(0, 10_000), length=st.integers(0, 300), cut=st.integers(0, 300))
def test_any_range_can_be_made_again(start: int, length: int, cut: int) -> None:
    generator = parse_options({"skew": "1.2", "disorder": "3 s", "seed": "7"}, EVERY_TYPE)
    whole, middle = generate(generator, start, start + length), start + min(cut, length)
    parts = [generate(generator, start, middle), generate(generator, middle, start + length)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.Table.from_batches([whole]).combine_chunks()


def test_streams_and_seeds_differ_but_share_their_keys() -> None:
    made = [
        generate(parse_options({"stream": stream, "seed": seed, "keys": "50"}), 0, 500)
        for stream, seed in (("a", "1"), ("b", "1"), ("a", "2"))
    ]
    assert len({str(batch["dest"].to_pylist()) for batch in made}) == 3
    assert len({frozenset(batch["dest"].to_pylist()) for batch in made}) == 1


def test_event_time_follows_rate_and_start_within_disorder() -> None:
    generator = parse_options({"rate": "2.5", "start": "2024-02-01T12:00:00", "disorder": "2 seconds"})
    happened = generate(generator, 0, 5000)["ts"].cast(pa.int64()).to_numpy()
    due = 1_706_788_800_000_000 + np.arange(5000) * 400_000
    behind = due - happened
    assert behind.min() >= 0
    assert parse_duration("1.9 s") < behind.max() <= parse_duration("2 s")
    assert (np.diff(happened) < 0).any()


def test_no_tuple_is_later_than_disorder_behind_any_before_it() -> None:
    generator = parse_options({"rate": "1000", "disorder": "50 ms"})
    happened = generate(generator, 0, 20_000)["ts"].cast(pa.int64()).to_numpy()
    assert (np.maximum.accumulate(happened) - happened).max() <= 50_000


def test_without_skew_keys_are_alike_and_with_it_they_follow_zipf() -> None:
    rows = 200_000
    even = Counter(generate(parse_options({"keys": "10"}), 0, rows)["dest"].to_pylist())
    assert max(even.values()) < 1.05 * rows / 10
    skewed = Counter(generate(parse_options({"keys": "10", "skew": "1"}), 0, rows)["dest"].to_pylist())
    weights = [1 / rank for rank in range(1, 11)]
    for rank, weight in enumerate(weights):
        assert skewed[f"10.0.0.{rank}"] == pytest.approx(rows * weight / sum(weights), rel=0.05)


def test_key_columns_of_all_types_hold_the_same_key() -> None:
    columns = [Column("room", "string"), Column("id", "bigint"), Column("level", "double")]
    made = generate(
        parse_options({"key_columns": "room, ID", "text": "room {}", "keys": "30"}, columns), 0, 100
    )
    assert made["room"].to_pylist() == [f"room {key}" for key in made["id"].to_pylist()]
    assert pc.max(made["id"]).as_py() < 30


def test_an_array_is_a_set_that_follows_the_key_in_an_order_that_does_not() -> None:
    columns = [Column("tags", "array<string>"), Column("k", "int")]
    made = generate(parse_options({"key_columns": "tags,k", "keys": "5", "text": "t{}"}, columns), 0, 200)
    sets: dict[int, set[frozenset[str]]] = {}
    orders: dict[int, set[tuple[str, ...]]] = {}
    for tags, key in zip(made["tags"].to_pylist(), made["k"].to_pylist(), strict=True):
        sets.setdefault(key, set()).add(frozenset(tags))
        orders.setdefault(key, set()).add(tuple(tags))
    assert all(len(found) == 1 for found in sets.values())
    assert all(len(found) == 3 for found in orders.values())


def test_payload_sets_the_length_of_binary_columns() -> None:
    columns = [Column("k", "int"), Column("body", "binary")]
    made = generate(parse_options({"payload": "21"}, columns), 0, 50)
    assert set(pc.binary_length(made["body"]).to_pylist()) == {21}
    assert len(set(made["body"].to_pylist())) == 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rat": "5"}, "has no option 'rat'; it has stream, seed, rate"),
        ({"rate": "0"}, "rate = '0' will not do: it must be above 0"),
        ({"rate": "fast"}, "rate = 'fast' will not do"),
        ({"keys": "0"}, "keys = '0' will not do: it must be at least 1"),
        ({"skew": "-1"}, "it must be between 0 and 10"),
        ({"skew": "1", "keys": "20000000"}, "10000000 keys at most"),
        ({"disorder": "soon"}, "disorder = 'soon' will not do: 'soon' is not a duration"),
        ({"start": "yesterday"}, "start = 'yesterday' will not do"),
        ({"text": "room"}, "write {} once"),
        ({"key_columns": "dst"}, "key_columns names 'dst', which is no column"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        parse_options(options)
    assert message in str(refusal.value)


def test_a_type_it_cannot_make_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot make m map<string,int>: only simple types"):
        parse_options({}, [Column("m", "map<string,int>")])


def _reader(**options: str) -> GeneratorStreamReader:
    return GeneratorStreamReader(parse_options(options), StructType())


def test_rows_become_available_with_the_clock_from_wherever_a_run_starts() -> None:
    reader = _reader(rate="100")
    assert reader.latest_row(0, ReadAllAvailable(), 50.0) == 0
    assert reader.latest_row(0, ReadAllAvailable(), 50.5) == 50
    assert reader.latest_row(50, ReadAllAvailable(), 51.0) == 100
    restarted = _reader(rate="100")
    assert restarted.latest_row(100, ReadAllAvailable(), 9000.0) == 100
    assert restarted.latest_row(100, ReadAllAvailable(), 9001.0) == 200


def test_a_stream_with_an_end_stops_there() -> None:
    reader = _reader(rate="100", rows="70")
    reader.latest_row(0, ReadAllAvailable(), 0.0)
    assert reader.latest_row(0, ReadAllAvailable(), 1.0) == 70
    assert reader.latest_row(70, ReadAllAvailable(), 2.0) == 70


def test_available_now_takes_all_rows_whatever_the_clock_in_batches_as_asked() -> None:
    reader = _reader(rate="1", rows="70", rows_per_batch="30")
    reader.prepareForTriggerAvailableNow()
    assert reader.getDefaultReadLimit() == ReadMaxRows(30)
    ends = [reader.latest_row(start, ReadMaxRows(30), 0.0) for start in (0, 30, 60, 70)]
    assert ends == [30, 60, 70, 70]


def test_available_now_without_an_end_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="never ends"):
        _reader().prepareForTriggerAvailableNow()


def test_a_micro_batch_is_split_among_tasks_without_gap_or_overlap() -> None:
    reader = _reader(partitions="3")
    ranges = [(part.start, part.end) for part in reader.partitions({"row": 5}, {"row": 15})]
    assert ranges == [(5, 8), (8, 11), (11, 15)]
    assert list(reader.partitions({"row": 5}, {"row": 5})) == []


def test_spark_reads_as_a_batch_what_generate_makes(spark: SparkSession) -> None:
    options = {"rows": "1000", "partitions": "3", "skew": "0.8", "disorder": "1 s"}
    schema = ", ".join(f"{column.name} {column.type}" for column in EVERY_TYPE)
    frame = spark.read.format(FORMAT).schema(schema).options(**options).load()
    made = generate(parse_options(options, EVERY_TYPE), 0, 1000)
    read = frame.toArrow()
    assert _bag(read) == _bag(pa.Table.from_batches([made]))


def test_spark_streams_what_generate_makes_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    options = {"rows": "500", "rows_per_batch": "200", "partitions": "2"}

    def run(rows: str) -> list[int]:
        source = spark.readStream.format(FORMAT).options(**{**options, "rows": rows}).load()
        query = (
            source.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    assert run("500") == [200, 200, 100]
    assert run("700") == [200]
    read = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert _bag(read) == _bag(pa.Table.from_batches([generate(parse_options(options), 0, 700)]))


def _bag(table: pa.Table) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in table.to_pylist())


def test_what_spark_starts_for_every_made_up_stream_loads_little() -> None:
    script = f"import sys, {GeneratorStreamReader.__module__}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numba", "pandas", "sqlglot", "watersmeet.kernel"} & set(run.stdout.split())
