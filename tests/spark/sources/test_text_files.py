"""Columns that JSON and CSV files surely call otherwise are refused; those that may come later are not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from watersmeet.errors import DataError
from watersmeet.query import Connector, Stream
from watersmeet.spark.sources.known_options import describe_misspelt
from watersmeet.spark.sources.text_files import check_csv, check_json
from watersmeet.sql import parse_pipeline


def stream(columns: str, path: Path, format_: str = "json", **options: str) -> Stream:
    text = "".join(f", {key} = '{value}'" for key, value in options.items())
    sql = f"CREATE STREAM s ({columns}) WITH (format = '{format_}', path = '{path}', event_time = 'ts'{text})"
    return parse_pipeline(sql).streams[0]


def write(path: Path, *records: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def test_an_event_time_that_no_record_has_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.json", *({"id": n, "at": "2026-01-01 00:00:00"} for n in range(19)))
    check_json(stream("id BIGINT, ts TIMESTAMP", tmp_path), tmp_path)  # they may be damaged
    write(tmp_path / "b.json", {"id": 20})
    with pytest.raises(DataError, match=r"no record in .* has ts, .* They have id, at\. Declare"):
        check_json(stream("id BIGINT, ts TIMESTAMP", tmp_path), tmp_path)


@pytest.mark.parametrize("key", ["DEST", "dest_", "de-st", "destt"])
def test_a_key_of_nearly_the_same_name_is_what_was_meant(tmp_path: Path, key: str) -> None:
    write(tmp_path / "a.json", {key: "x", "ts": 1}, {key: "y", "ts": 1})
    declared = "destt" if key == "destt" else "dest"
    check_json(stream(f"`{key}` STRING, ts TIMESTAMP", tmp_path), tmp_path)
    if declared == "dest":
        with pytest.raises(DataError, match=f"has dest, .* Did you mean {key}"):
            check_json(stream("dest STRING, ts TIMESTAMP", tmp_path), tmp_path)


def test_a_column_that_records_rarely_have_is_no_mistake(tmp_path: Path) -> None:
    """Its own name is not in the first records, and theirs are other names."""
    write(tmp_path / "a.json", *({"id": n, "address1": "x", "error_text": "", "ts": 1} for n in range(300)))
    columns = "id BIGINT, address2 STRING, error_code INT, ts TIMESTAMP"
    check_json(stream(columns, tmp_path), tmp_path)
    check_json(stream("id BIGINT, address STRING, ts TIMESTAMP", tmp_path), tmp_path)


def test_one_record_that_has_a_column_is_enough(tmp_path: Path) -> None:
    write(tmp_path / "a.json", {"Dest": 1, "ts": 1})
    with gzip.open(tmp_path / "b.json.gz", "wt") as packed:
        packed.write('{"dest": "x", "ts": 1}\n')
    check_json(stream("dest STRING, ts TIMESTAMP", tmp_path), tmp_path)


def test_what_cannot_be_looked_into_is_left_to_spark(tmp_path: Path) -> None:
    columns = stream("dest STRING, ts TIMESTAMP", tmp_path)
    check_json(columns, tmp_path)
    (tmp_path / "a.json").write_bytes(b"\xff\xfe{")
    (tmp_path / "b.json").write_text("[1, 2]\nno json\n")
    check_json(columns, tmp_path)
    write(tmp_path / "c.json", {"at": 1})
    check_json(stream("dest STRING, ts TIMESTAMP", tmp_path, multiLine="true"), tmp_path)


def test_a_column_that_a_folder_gives_is_in_no_record(tmp_path: Path) -> None:
    write(tmp_path / "days=1" / "a.json", {"day": 1, "ts": 1})
    check_json(stream("days INT, ts TIMESTAMP", tmp_path), tmp_path)


def test_a_csv_column_at_another_position_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts;dest\n2026-01-01;x\n")
    options = {"header": "true", "sep": ";"}
    with pytest.raises(DataError, match=r"dest is declared as column 1, and column 1 of .*a\.csv is ts"):
        check_csv(stream("dest STRING, ts TIMESTAMP", tmp_path, "csv", **options), tmp_path)
    check_csv(stream("ts TIMESTAMP, target STRING", tmp_path, "csv", **options), tmp_path)
    check_csv(stream("dest STRING, ts TIMESTAMP", tmp_path, "csv", sep=";"), tmp_path)
    by_name = {**options, "enforceSchema": "false"}  # Spark compares them itself
    check_csv(stream("dest STRING, ts TIMESTAMP", tmp_path, "csv", **by_name), tmp_path)


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("latness", "lateness"),
        ("event_tme_unit", "event_time_unit"),
        ("idleafter", "idle_after"),
        ("maxFilesPerTriger", "maxFilesPerTrigger"),
        ("heder", "header"),
    ],
)
def test_a_misspelt_option_is_named_with_its_line_and_what_was_meant(option: str, meant: str) -> None:
    sql = f"CREATE STREAM s (x INT)\n  WITH (format = 'csv', path = 'x',\n  {option} = '5 seconds')"
    (said,) = describe_misspelt(parse_pipeline(sql).streams)
    assert said == (
        f"stream s (line 3): {option} is no option of csv, which passes over it. Did you mean {meant}?"
    )


def test_options_that_are_meant_are_let_be() -> None:
    known = ("maxFileAge", "cleanSource", "sep", "mode", "rowTag", "kafka.sasl.jaas.config", "latestFirst")
    source = Connector(
        "json", tuple((name, "x") for name in (*known, "encode", "some.vendor.thing", "laten"))
    )
    theirs = Connector("some-format", (("maxFilesPerTriger", "1"), ("rate", "1"), ("side", "x")))
    streams = [Stream("s", (), source=source), Stream("t", (), source=theirs)]
    assert describe_misspelt(streams) == []


def test_spark_reads_a_key_of_another_case_as_null(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.json", {"Dest": "x", "size": 1})
    row = spark.read.schema("dest STRING, size BIGINT").json(f"file:{tmp_path}").first()
    assert row is not None
    assert (row["dest"], row["size"]) == (None, 1)
