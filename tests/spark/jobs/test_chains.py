"""Which queries of a file read the answers of others, and what of that is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.plan.physical import plan_physical
from watersmeet.query import Query
from watersmeet.spark.chains.answer_log import AnswerLog, LoggedBatch
from watersmeet.spark.chains.log_sink import AnswerLogSink
from watersmeet.spark.jobs.chains import Chains, answer_delay_us
from watersmeet.spark.jobs.pipeline_file import name_queries
from watersmeet.spark.sinks.answer_ids import Origin
from watersmeet.spark.sinks.target import Batch
from watersmeet.sql import Source, parse_pipeline

STREAMS = """
CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 'a', event_time = 'ts');
CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 'b', event_time = 'ts');
CREATE SINK out WITH (format = 'parquet', path = 'out');
CREATE STREAM j AS SELECT a.k FROM a [RANGE 5 SECONDS] LEFT JOIN b [RANGE 3 SECONDS] ON a.k = b.k;
CREATE STREAM unread AS SELECT a.k FROM a, b WHERE a.k = b.k;
CREATE VIEW v AS SELECT k + 1 AS k FROM j;
CREATE STREAM jj AS SELECT v.k FROM v [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE v.k = b.k;
"""
READS = "INSERT INTO out SELECT x.k FROM jj [RANGE 5 SECONDS] AS x, j [RANGE 5 SECONDS] AS y WHERE x.k = y.k;"


def named(text: str) -> dict[str, Query]:
    return name_queries(parse_pipeline(text), Source(text))


def chains(root: str) -> Chains:
    nobody: Any = None
    return Chains(nobody, root, named(STREAMS + READS))


def test_a_query_runs_for_each_stream_of_answers_that_some_query_reads() -> None:
    found = chains("/data")
    assert list(found.queries) == ["j", "jj", "out"]
    assert {name: found.reads(name) for name in found.queries} == {"j": (), "jj": ("j",), "out": ("jj", "j")}
    assert {name: found.readers(name) for name in found.queries} == {
        "j": ("jj", "out"),
        "jj": ("out",),
        "out": (),
    }
    assert [found.sink(name) is None for name in found.queries] == [False, False, True]


def test_a_log_is_on_a_disk(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"stream jj is the answers of a query, .* hdfs:///data is not on a disk"
    ):
        chains("hdfs:///data").log_of("jj")
    assert chains(str(tmp_path)).log_of("out") is None
    assert chains(str(tmp_path)).log_of("jj") is not None
    assert (tmp_path / "jj" / "answers" / "id").exists()


def test_answers_of_outer_joins_may_be_as_old_as_what_they_keep() -> None:
    queries = named(STREAMS + READS)
    assert answer_delay_us(queries["j"]) == 5_000_001  # a lifetime is [ts, end)
    assert answer_delay_us(queries["jj"]) == 0


def test_sparks_own_joins_take_no_part() -> None:
    found = chains("/data")
    native = plan_physical(found.queries["jj"], 2, None, "native")
    with pytest.raises(ConfigurationError, match=r"query jj is part of a chain, .* choose another routing"):
        found.check("jj", native)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{STREAMS}-- name: j\n{READS}", "query of stream j and another one would keep their state"),
        (
            f"{STREAMS}{READS}".replace("jj", "`j j`"),
            "stream j j is the answers of a query that has its name",
        ),
        (
            f"{STREAMS}{READS}".replace("jj", "`dead-letters-j`"),
            "the checkpoint has files of its own called so",
        ),
    ],
)
def test_names_under_which_no_state_can_be_kept_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        named(text)


def test_a_batch_that_is_done_again_finds_itself_in_the_log(tmp_path: Path) -> None:
    log, nobody = AnswerLog(tmp_path), Any
    log.open()
    (tmp_path / "data" / "4-x").mkdir(parents=True)
    assert log.commit(LoggedBatch(number=4, previous=2, mark=7, plan="offsets", folder="data/4-x"))
    spark: Any = nobody
    sink = AnswerLogSink(spark=spark, log=log, delay_us=0, readers=("out",))

    def write(number: int, plan: str) -> None:
        def unasked(_: frozenset[str]) -> None:
            raise AssertionError("its answers are in the log")

        sink.write(
            Batch(
                number=number, plan=plan, origin=Origin("w", number), queries=frozenset("w"), answers=unasked
            )
        )

    write(4, "offsets")
    with pytest.raises(DataError, match="holds another batch 4"):
        write(4, "other offsets")
    with pytest.raises(DataError, match="holds batch 4 of the same checkpoint, as if an older copy"):
        write(3, "offsets")
