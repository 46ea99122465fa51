"""Every source has batches of bounded size unless it declares their size itself; nothing here needs Java."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.query import Column, Connector, Stream
from watersmeet.spark.sources.batch_limits import apply_limit, can_be_paced, default_limit, divide_limit
from watersmeet.spark.sources.read_sources import batch_shares
from watersmeet.spark.sources.source_size import measure_source

COLUMNS = (Column("k", "bigint"), Column("text", "string"), Column("ts", "timestamp"))


def stream_of(format_: str, lateness_us: int = 0, **options: str) -> Stream:
    return Stream(
        "s", COLUMNS, "ts", lateness_us=lateness_us, source=Connector(format_, tuple(options.items()))
    )


def options_of(stream: Stream) -> dict[str, str]:
    assert stream.source is not None
    return dict(stream.source.options)


def limited(format_: str, unit_bytes: float = 1.0, **options: str) -> dict[str, str]:
    stream = stream_of(format_, **options)
    limit = default_limit(stream, 1000, unit_bytes)
    return options_of(stream if limit is None else apply_limit(stream, limit))


def test_a_source_that_declares_no_limit_gets_one() -> None:
    assert limited("parquet", 4.0) == {"maxBytesPerTrigger": "250"}
    assert limited("json") == {"maxBytesPerTrigger": "1000"}
    assert limited("delta", 4.0) == {"maxBytesPerTrigger": "250"}
    assert limited("kafka") == {"maxOffsetsPerTrigger": "10"}
    assert limited("iceberg") == {"streaming-max-rows-per-micro-batch": "10"}
    assert limited("watersmeet-generator") == {"rows_per_batch": "10"}
    assert limited("watersmeet-generator", payload="150") == {"payload": "150", "rows_per_batch": "4"}
    assert limited("rate") == {}


@pytest.mark.parametrize(
    ("format_", "option"),
    [
        ("parquet", "maxFilesPerTrigger"),
        ("json", "maxbytespertrigger"),
        ("kafka", "maxOffsetsPerTrigger"),
        ("kafka", "minOffsetsPerTrigger"),
        ("watersmeet-generator", "rowsPerBatch"),
    ],
)
def test_what_a_stream_declares_itself_stays(format_: str, option: str) -> None:
    assert limited(format_, **{option: "7"}) == {option: "7"}


def test_the_newest_files_first_are_not_cut_off_from_the_others() -> None:
    assert limited("parquet", latestFirst="true") == {"latestFirst": "true"}


def test_a_stream_that_may_fall_idle_is_never_made_to_wait() -> None:
    stream = stream_of("parquet")
    assert can_be_paced(stream)
    assert not can_be_paced(replace(stream, idle_after_us=1_000_000))
    assert not can_be_paced(replace(stream, event_time=None))
    assert not can_be_paced(stream_of("delta"))


def test_after_a_crash_by_memory_declared_limits_are_divided_too() -> None:
    def divided(format_: str, by: int, **options: str) -> dict[str, str]:
        return options_of(divide_limit(stream_of(format_, **options), by))

    assert divided("parquet", 2, maxFilesPerTrigger="4") == {"maxFilesPerTrigger": "2"}
    assert divided("parquet", 8, maxFilesPerTrigger="4") == {"maxFilesPerTrigger": "1"}
    assert divided("json", 4, maxbytespertrigger="400") == {"maxbytespertrigger": "100"}
    assert divided("kafka", 2, maxOffsetsPerTrigger="50") == {"maxOffsetsPerTrigger": "25"}
    assert divided("watersmeet-generator", 2, rowsPerBatch="50") == {"rowsPerBatch": "25"}


def test_a_batch_covers_the_same_event_time_of_streams_whose_density_is_known() -> None:
    shares = batch_shares({"a": 3.0, "b": 1.0, "c": None}, 4)  # a fourth one declares its own limit
    assert shares == {"a": 0.375, "b": 0.125, "c": 0.25}


def write_files(folder: Path, starts_s: Sequence[int], *, rows: int = 100, modified: bool = True) -> None:
    """Files of ten seconds each, modified one after the other, or all at once."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(starts_s):
        times = (start * 1_000_000 + np.linspace(0, 10_000_000, rows)).astype(np.int64)
        columns = {
            "k": pa.array(np.zeros(rows, np.int64)),
            "text": pa.array(["the same long text for all of them"] * rows),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
        file = folder / f"{number:04d}.parquet"
        pq.write_table(pa.table(columns), file)
        time = 1_700_000_000 + (number if modified else 0)
        os.utime(file, (time, time))


def test_footers_tell_how_much_memory_a_byte_of_a_file_takes(tmp_path: Path) -> None:
    write_files(tmp_path / "s", [0, 10, 20], rows=50_000)
    size = measure_source(stream_of("parquet", path=str(tmp_path / "s")), tmp_path)
    files = sum(file.stat().st_size for file in (tmp_path / "s").iterdir())
    assert size.file_bytes == files
    assert size.unit_bytes * files == pytest.approx(150_000 * (8 + 16 + 8))
    assert size.density == pytest.approx(150_000 * 32 / 30_000_000)
    assert not size.disorder
    assert measure_source(stream_of("json", path=str(tmp_path / "s")), tmp_path).unit_bytes == 1.0


@pytest.mark.parametrize(("wrong_s", "files"), [(0, 5), (32_503_680_000, 5), (32_503_680_000, 2)])
def test_a_tuple_of_another_age_hides_nothing_of_the_others(tmp_path: Path, wrong_s: int, files: int) -> None:
    """Otherwise the whole backlog would be one batch, because of the year 1970 or 3000."""
    start_s = 1_700_000_000
    write_files(tmp_path / "s", [start_s + 10 * number for number in range(files)])
    file = sorted((tmp_path / "s").iterdir())[1 % (files - 1)]
    modified, table = file.stat().st_mtime, pq.read_table(file)
    wrong = pa.array([wrong_s * 1_000_000], pa.timestamp("us", "UTC")).cast(table["ts"].type)
    times = pa.concat_arrays([wrong, *table["ts"].slice(1).chunks])
    pq.write_table(table.set_column(table.column_names.index("ts"), "ts", times), file)
    os.utime(file, (modified, modified))
    size = measure_source(stream_of("parquet", path=str(tmp_path / "s")), tmp_path)
    assert not size.disorder
    assert size.density is not None
    assert size.density > 1e-6


@pytest.mark.parametrize(
    ("starts_s", "lateness_s", "modified", "in_order"),
    [
        ([0, 10, 20], 0, True, True),
        ([0, 8, 16], 0, True, False),  # each begins two seconds before its predecessor ends
        ([0, 8, 16], 2, True, True),
        ([100, 0, 200], 5, True, False),
        ([100, 0, 200], 110, True, True),
        ([0, 10, 20], 0, False, False),  # of one instant: in any order
        ([0, 10, 20], 30, False, True),
    ],
)
def test_files_whose_order_would_make_tuples_late_are_recognised(
    tmp_path: Path, starts_s: list[int], lateness_s: int, *, modified: bool, in_order: bool
) -> None:
    write_files(tmp_path / "s", starts_s, modified=modified)
    stream = stream_of("parquet", lateness_us=lateness_s * 1_000_000, path=str(tmp_path / "s"))
    disorder = measure_source(stream, tmp_path).disorder
    assert bool(disorder) is not in_order
    if disorder:
        assert disorder.startswith("stream s: its files are not in order of event time")
