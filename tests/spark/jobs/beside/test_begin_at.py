"""A query that begins where another one is: what its new checkpoint says, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from watersmeet.errors import DataError
from watersmeet.query import Stream
from watersmeet.spark.jobs.beside.begin_at import NO_BATCH, begin_at, read_taken
from watersmeet.spark.storage.folder import Folder
from watersmeet.sql import parse_pipeline

STREAMS = parse_pipeline(
    "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 'a', event_time = 'ts');"
    "CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (format = 'kafka', topic = 'b', bootstrap = 'h:1', "
    "event_time = 'ts');"
    "CREATE STREAM c (k BIGINT, ts TIMESTAMP) WITH (format = 'rate', event_time = 'ts');"
    "CREATE STREAM d (k BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 'd', event_time = 'ts');"
).streams
NAMES = [stream.name for stream in STREAMS]
HEAD = ["v1", '{"batchWatermarkMs":0,"batchTimestampMs":7,"conf":{}}']
KAFKA = '{"b":{"0":12,"1":0}}'


def folder(path: Path) -> Folder:
    return Folder(None, str(path))  # type: ignore[arg-type]


def entry(number: int, batch: int) -> str:
    return json.dumps({"path": f"file:///a/{number}.json", "timestamp": number, "batchId": batch})


def dataflow(path: Path, offset: int, logs: dict[str, list[tuple[int, int]]]) -> Folder:
    """A dataflow after its batch 5; `logs` are those of its source of files, (file, batch) each."""
    old = folder(path / "old")
    old.write("spark/offsets/5", "\n".join([*HEAD, json.dumps({"logOffset": offset}), KAFKA, "77", "-"]))
    for name, entries in logs.items():
        old.write(f"spark/sources/0/{name}", "\n".join(["v1", *(entry(*each) for each in entries)]))
    return old


def begun(path: Path, old: Folder, *read: Stream | None) -> Path:
    begin_at(folder(path / "new"), old, read_taken(old, 5, NAMES), read)
    return path / "new" / "spark"


def files(new: Path, source: int) -> list[str]:
    version, *lines = (new / "sources" / str(source) / "0").read_text().splitlines()
    assert version == "v1"
    assert {json.loads(line)["batchId"] for line in lines} <= {NO_BATCH}
    return [json.loads(line)["path"].removeprefix("file:///a/") for line in lines]


def test_it_begins_behind_what_the_other_has_taken(tmp_path: Path) -> None:
    a, b, c, d = STREAMS
    old = dataflow(tmp_path, 1, {"0": [(0, 0), (1, 0)], "1": [(2, 1)], "2": [(3, 2)]})
    new = begun(tmp_path, old, b, a, c, a, d, None)
    offsets = (new / "offsets" / "0").read_text().splitlines()
    assert offsets == [*HEAD, KAFKA, '{"logOffset":0}', "77", '{"logOffset":0}', "-", "-"]
    assert files(new, 1) == ["0.json", "1.json", "2.json"], "the file of batch 2 is not seen yet"
    assert (new / "sources" / "0" / "0").read_bytes() == b"\0v1\n" + KAFKA.encode()
    assert sorted(path.name for path in (new / "sources").iterdir()) == ["0", "1"]
    assert json.loads((new / "metadata").read_text())["id"]


@pytest.mark.parametrize(
    "logs",
    [
        {"9.compact": [(n, n) for n in range(10)], "10": [(10, 10)], "11": [(11, 11)], "12": [(12, 12)]},
        {"19.compact": [(n, n) for n in range(20)], "11": [(11, 11)]},
        {"9.compact": [(n, n) for n in range(10)], "19.compact": [(n, n) for n in range(20)]},
    ],
    ids=["logs after one", "a later one", "two"],
)
def test_logs_that_spark_has_put_together_are_read(
    tmp_path: Path, logs: dict[str, list[tuple[int, int]]]
) -> None:
    new = begun(tmp_path, dataflow(tmp_path, 11, logs), STREAMS[0], None)
    assert files(new, 0) == [f"{n}.json" for n in range(12)]


def test_a_batch_that_the_other_has_forgotten_is_refused(tmp_path: Path) -> None:
    old = dataflow(tmp_path, 1, {"0": [(0, 0)]})
    with pytest.raises(DataError, match=r"log of batch 4 in .* is gone .* Submit the query again"):
        read_taken(old, 4, NAMES)
    with pytest.raises(DataError, match=r"spark/sources/0/1 in .* is gone"):
        begun(tmp_path, old, STREAMS[0], None)


def test_what_a_crash_has_cut_short_is_done_again(tmp_path: Path) -> None:
    old = dataflow(tmp_path, 0, {"0": [(0, 0)]})
    first = (begun(tmp_path, old, STREAMS[0], None) / "metadata").read_text()
    (tmp_path / "new" / "spark" / "offsets" / "0").unlink()
    new = begun(tmp_path, old, STREAMS[0], None)
    assert (new / "metadata").read_text() == first
    assert (new / "offsets" / "0").exists()
