"""The state of a checkpoint that Spark has written: what is live there, told, shown and taken out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import QUERIES, Case, random_batches, write_case
from watersmeet.cli import state
from watersmeet.errors import ConfigurationError
from watersmeet.oracle.arrivals import take_in
from watersmeet.oracle.lifetimes import ends_of
from watersmeet.session import Session
from watersmeet.spark.inspect.open_state import open_states
from watersmeet.spark.inspect.read_state import CheckpointState
from watersmeet.spark.inspect.sections import Holding
from watersmeet.spark.inspect.state_report import report_state, sums
from watersmeet.spark.jobs.job import RunOptions


def live_rows(case: Case) -> dict[str, Counter[tuple[int, int]]]:
    """Keys and event times of the tuples that something to come may meet, by the definition."""
    came = take_in(case.query, case.batches)
    return {
        item.alias: Counter(
            (one.values["k"], one.ts)
            for one, end in ends_of(item, came.accepted[item.stream.name])
            if end > came.watermark
        )
        for item in case.query.inputs
    }


@pytest.mark.parametrize("routing", ["shares", pytest.param("pipeline", marks=pytest.mark.variant)])
def test_live_tuples_are_told_shown_and_exported(
    routing: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], long_mode: bool
) -> None:
    select = QUERIES["chain"].replace("a.v AS va", "a.k, a.v AS va, b.k AS bk, c.k AS ck")
    case = write_case(tmp_path, select, random_batches(seed=5, count=2))
    spark.conf.set("spark.sql.shuffle.partitions", "2")  # tuples have copies
    Session(spark).run(
        case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True, routing=routing)
    )
    expected = live_rows(case)
    assert all(expected.values())

    [found] = open_states(spark, str(case.checkpoint)).values()
    assert open_states(spark, str(case.checkpoint / "out")).keys() == {"out"}
    report = report_state(found, top=3)
    by_alias = {one.of: parts for one, parts in report.sections().items() if one.holds is Holding.TUPLES}
    assert {alias: sums(parts)["live"] for alias, parts in by_alias.items()} == {
        alias: own.total() for alias, own in expected.items()
    }
    ages = [ts for _, ts in expected["a"]]
    assert (sums(by_alias["a"])["oldest_us"], sums(by_alias["a"])["newest_us"]) == (min(ages), max(ages))
    assert report.watermark == take_in(case.query, case.batches).watermark

    inputs = found.inputs()
    assert inputs.keys() == expected.keys()
    for alias in inputs if long_mode else ["c"]:  # of which there are copies
        rows = inputs[alias].selectExpr("k", "unix_micros(event_time) AS ts").collect()
        assert Counter((row.k, row.ts) for row in rows) == expected[alias], alias

    most, number = Counter(k for k, _ in expected["a"].elements()).most_common(1)[0]
    state._print(
        state._select(inputs, f"SELECT k, count(*) AS n FROM a WHERE k = {most} GROUP BY k"), 5, as_json=True
    )
    assert capsys.readouterr().out == f'{{"k":{most},"n":{number}}}\n'
    with pytest.raises(ConfigurationError, match="a has k, v, event_time, bucket"):
        state._select(inputs, "SELECT nothing FROM a")
    state._export({"b": inputs["b"]}, str(tmp_path / "exported"))
    assert spark.read.parquet(f"file:{tmp_path}/exported/b").count() == expected["b"].total()


def test_what_has_no_state_is_said(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no checkpoint in .*: name the folder"):
        open_states(spark, str(tmp_path))
    (tmp_path / "flow.sql").touch()
    with pytest.raises(ConfigurationError, match=r"there is no checkpoint in .*/\.watersmeet/flow: "):
        open_states(spark, str(tmp_path / "flow.sql"))
    with pytest.raises(ConfigurationError, match="no batch of its query has been completed"):
        report_state(CheckpointState(spark, str(tmp_path)), top=1)
