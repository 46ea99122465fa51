"""The log of answers: each batch once and in order, whatever a listing shows. No Spark here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from watersmeet.errors import DataError
from watersmeet.kernel import MARK
from watersmeet.query import BEGINNING, NEVER
from watersmeet.spark.chains import log_source
from watersmeet.spark.chains.answer_log import AnswerLog, LoggedBatch
from watersmeet.spark.chains.log_sink import mark_of
from watersmeet.spark.chains.log_source import AnswersReader, read_part

ALL = ReadAllAvailable()
SCHEMA = pa.schema([("k", pa.int64()), ("answer_time", pa.timestamp("us", "UTC")), (MARK, pa.int64())])


def put(log: AnswerLog, number: int, previous: int, rows: int = 2) -> LoggedBatch:
    """A batch of so many rows, each with the number of the batch."""
    folder = f"data/{number}-x"
    (log.root / folder).mkdir(parents=True)
    table = pa.table(
        {"k": [number] * rows, "answer_time": pa.array([number] * rows, pa.timestamp("us", "UTC"))}
    )
    pq.write_table(table, log.root / folder / "part-0.parquet")
    files = log.sizes(folder)
    batch = LoggedBatch(
        number=number,
        previous=previous,
        mark=10 * number,
        plan="",
        folder=folder,
        files=tuple(files),
        nbytes=99,
    )
    assert log.commit(batch)
    return batch


@pytest.fixture
def log(tmp_path: Path) -> AnswerLog:
    log = AnswerLog(tmp_path / "answers")
    log.open()
    return log


def reader(log: AnswerLog, name: str = "out") -> AnswersReader:
    made = AnswersReader(log, name, StructType())
    made.prepareForTriggerAvailableNow()
    return made


def read(log: AnswerLog, start: int, end: int) -> list[tuple[int | None, int | None]]:
    """The first column and the mark of all rows after a batch, up to another."""
    offsets = [{"log": log.id, "batch": number} for number in (start, end)]
    parts = reader(log).partitions(*offsets)
    found = pa.Table.from_batches([each for part in parts for each in read_part(part, SCHEMA)], SCHEMA)
    return list(zip(found.column("k").to_pylist(), found.column(MARK).to_pylist(), strict=True))


def test_a_reader_gets_all_answers_and_one_mark_after_them(log: AnswerLog) -> None:
    put(log, 0, -1)
    put(log, 3, 0, rows=1)  # batches 1 and 2 had nothing to say
    made = reader(log)
    start = made.initialOffset()
    assert made.latestOffset(start, ALL) == {"log": log.id, "batch": 3}
    assert read(log, -1, 3) == [(0, None), (0, None), (3, None), (None, 30)]
    assert read(log, 0, 3) == [(3, None), (None, 30)]
    assert read(log, 3, 3) == []


def test_no_batch_is_taken_before_the_one_it_follows(log: AnswerLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a folder is listed while batches come, and the listing has the later one alone."""
    for number in range(3):
        put(log, number, number - 1)
    made = reader(log)
    with monkeypatch.context() as patch:
        patch.setattr(AnswerLog, "numbers", lambda _: [0, 2])
        assert made.latestOffset(made.initialOffset(), ALL)["batch"] == 0
    assert made.latestOffset({"log": log.id, "batch": 0}, ALL)["batch"] == 2


def test_a_reader_that_was_away_catches_up_in_pieces(log: AnswerLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_source, "MOST_BYTES", 150)  # a batch has 99
    for number in range(5):
        put(log, number, number - 1)
    made = reader(log)
    put(log, 5, 4)  # after the run began, which takes what is there
    offset, taken = made.initialOffset(), []
    while (latest := made.latestOffset(offset, ALL)) != offset:
        offset = latest
        taken.append(offset["batch"])
    assert taken == [1, 3, 4]


def test_a_batch_goes_when_all_readers_are_done_with_it_and_the_newest_stays(log: AnswerLog) -> None:
    for number in range(4):
        put(log, number, number - 1)
    log.sweep(("out", "other"))
    assert log.numbers() == [0, 1, 2, 3]
    reader(log, "out").commit({"log": log.id, "batch": 3})
    log.sweep(("out", "other"))
    assert log.numbers() == [0, 1, 2, 3]  # the other one has read nothing
    reader(log, "other").commit({"log": log.id, "batch": 1})
    log.sweep(("out", "other"))
    assert log.numbers() == [2, 3]
    assert sorted(path.name for path in (log.root / "data").iterdir()) == ["2-x", "3-x"]
    reader(log, "other").commit({"log": log.id, "batch": 3})
    log.sweep(("out", "other"))
    assert log.numbers() == [3]
    late = reader(log, "new")
    assert (
        late.latestOffset(late.initialOffset(), ALL)["batch"] == 3
    )  # one that begins later has it, and what follows
    put(log, 4, 3)
    assert read(log, late.initialOffset()["batch"], 4)[-1] == (None, 40)


def test_what_a_checkpoint_has_read_must_be_there_when_it_is_read_again(log: AnswerLog) -> None:
    for number in range(3):
        put(log, number, number - 1)
    log.remove("batch-1.json")
    with pytest.raises(DataError, match="lacks batches after 0 up to 2"):
        read(log, 0, 2)


def test_another_log_in_the_same_place_is_refused(log: AnswerLog) -> None:
    put(log, 0, -1)
    made = reader(log)
    with pytest.raises(DataError, match="was begun anew"):
        made.latestOffset({"log": "another", "batch": 0}, ALL)


def test_one_try_of_a_batch_is_committed(log: AnswerLog) -> None:
    first = put(log, 0, -1)
    assert not log.commit(first)
    assert log.batch(0) == first
    (log.root / "batch-0.json").write_text("{")
    with pytest.raises(DataError, match="is damaged"):
        log.newest()


def test_a_mark_is_the_watermark_less_what_answers_may_wait() -> None:
    assert mark_of(None, 5) == BEGINNING
    assert mark_of(100, 5) == 95
    assert mark_of(NEVER, 5) == NEVER
    assert mark_of(BEGINNING + 2, 5) == BEGINNING
