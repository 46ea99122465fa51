"""`watersmeet run` as a person runs it: in a process of its own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.oracle.oracle import Tuple, bag, run
from watersmeet.query import Pipeline
from watersmeet.spark.generator.generator import generate, parse_options
from watersmeet.sql import parse_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MASTER = ("--master", "local[2]", "--conf", "spark.driver.memory=1g")

FILES = """\
CREATE STREAM s1 (k BIGINT, v STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 's1', event_time = 'ts');
CREATE STREAM s2 (k BIGINT, v STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 's2', event_time = 'ts');
CREATE SINK pairs WITH (format = 'parquet', path = 'pairs');
INSERT INTO pairs
SELECT a.k, a.v AS v1, b.v AS v2 FROM s1 [RANGE 10 SECONDS] AS a, s2 [RANGE 10 SECONDS] AS b WHERE a.k = b.k;
SELECT DISTINCT a.v AS seen FROM s1 [RANGE 10 SECONDS] AS a, s2 [RANGE 10 SECONDS] AS b WHERE a.k = b.k;
"""

ENDLESS = """\
CREATE STREAM s1 (k BIGINT, v BIGINT, ts TIMESTAMP)
WITH (format = 'watersmeet-generator', event_time = 'ts', stream = 's1',
      rate = '100', keys = '20', rows = '1500');
CREATE STREAM s2 (k BIGINT, v BIGINT, ts TIMESTAMP)
WITH (format = 'watersmeet-generator', event_time = 'ts', stream = 's2',
      rate = '100', keys = '20', rows = '1500');
CREATE SINK pairs WITH (format = 'parquet', path = 'pairs');
INSERT INTO pairs
SELECT a.k, a.v AS v1, b.v AS v2, answer_time
FROM s1 [RANGE 100 MS] AS a, s2 [RANGE 100 MS] AS b WHERE a.k = b.k;
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "watersmeet", *arguments]


def run_cli(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )


def write(folder: Path, text: str) -> Path:
    path = folder / "pipeline.sql"
    path.write_text(text)
    return path


def write_rows(path: Path, rows: list[tuple[int, str, int]]) -> None:
    path.parent.mkdir(exist_ok=True)
    keys, values, seconds = zip(*rows, strict=True)
    times = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"k": pa.array(keys, pa.int64()), "v": values, "ts": times}), path)


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def written(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of all files that readers see."""
    return [
        tuple(row.values()) for file in folder.glob("*.parquet") for row in pq.read_table(file).to_pylist()
    ]


def test_two_queries_over_files_to_the_end_of_time(tmp_path: Path, long_mode: bool) -> None:
    write(tmp_path, FILES)
    write_rows(tmp_path / "s1" / "0.parquet", [(1, "a", 0), (2, "b", 5), (1, "c", 30)])
    write_rows(tmp_path / "s2" / "0.parquet", [(1, "x", 10), (1, "y", 11), (2, "z", 4), (1, "w", 31)])
    ended = run_cli(tmp_path, "run", "pipeline.sql", "--available-now", "--flush", "--json", *MASTER)
    assert ended.returncode == 0, ended.stderr
    shown_events = events(ended.stdout)
    assert shown_events[0]["event"] == "start"
    assert shown_events[0]["queries"] == ["pairs", "console"]
    assert shown_events[-1] == {"event": "end"}
    progress = [event for event in shown_events if event["event"] == "progress"]
    assert len(progress) == len(shown_events) - 2
    last = {event["query"]: event for event in progress}
    assert {name: event["total_rows"] for name, event in last.items()} == {"pairs": 7, "console": 7}
    assert Counter(written(tmp_path / "pairs")) == Counter([(1, "a", "x"), (2, "b", "z"), (1, "c", "w")])
    # The answers of the bare SELECT are shown beside the events, not among them; Spark's chatter is not.
    shown = [line.strip("|").strip() for line in ended.stderr.splitlines() if line.startswith("|")]
    assert sorted(set(shown) - {"seen"}) == ["a", "b", "c"]
    assert "TransformWithState" not in ended.stdout + ended.stderr
    if not long_mode:
        return  # that a checkpoint which was flushed is refused is shown in test_restart
    again = run_cli(tmp_path, "run", "pipeline.sql", "--available-now", *MASTER)
    assert again.returncode == 2
    assert "was ended by --flush" in again.stderr
    assert "Traceback" not in again.stderr


@pytest.mark.variant  # a shared dataflow that is served is stopped and resumed in the same way
def test_a_stopped_run_resumes_with_the_command_it_prints_and_loses_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, ENDLESS)
    first = subprocess.Popen(
        command("run", "pipeline.sql", "--json", *MASTER),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert first.stdout is not None
    for line in first.stdout:
        if json.loads(line).get("total_rows"):
            break
    # To the whole group, as a terminal does.
    os.killpg(first.pid, signal.SIGINT)
    out, err = first.communicate(timeout=300)
    assert first.returncode == 130, err
    stopped = events(out)[-1]
    assert stopped["event"] == "stopped"
    assert stopped["resume"] in err
    assert "Traceback" not in err
    words = shlex.split(stopped["resume"])
    assert words == ["watersmeet", "run", "pipeline.sql", *MASTER, "--json"]

    rest = run_cli(tmp_path, *words[1:], "--available-now", "--flush")
    assert rest.returncode == 0, rest.stderr
    batches = [event["batch_id"] for event in events(rest.stdout) if event["event"] == "progress"]
    assert batches[0] > 0
    assert bag(written(tmp_path / "pairs")) == expected(parse_pipeline(file.read_text()))


def expected(pipeline: Pipeline) -> Counter[Any]:
    batch = {}
    for stream in pipeline.streams:
        assert stream.source is not None
        generator = parse_options(dict(stream.source.options), stream.columns)
        rows = generate(generator, 0, generator.rows or 0).to_pylist()
        micros = generate(generator, 0, generator.rows or 0).column("ts").cast(pa.int64()).to_pylist()
        batch[stream.name] = [Tuple(ts, row) for ts, row in zip(micros, rows, strict=True)]
    answers = run(pipeline.queries[0], [batch], flush=True).rows
    return bag((*row[:-1], _instant(row[-1])) for row in answers)


def _instant(microseconds: int) -> Any:
    return pa.scalar(microseconds, pa.timestamp("us", tz="UTC")).as_py()


@pytest.mark.variant  # what is said is tested with the failures, how it is told with the commands
def test_a_query_that_fails_says_why_and_where_the_log_is(tmp_path: Path) -> None:
    write(tmp_path, FILES.replace("'parquet', path = 's", "'json', path = 's"))
    for name in ("s1", "s2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.json").write_text('{"k": "many", "v": "a", "ts": "2025-01-01T00:00:00Z"}\n')
    failed = run_cli(tmp_path, "run", "pipeline.sql", "--available-now", *MASTER)
    assert failed.returncode == 1
    assert "does not match its declared schema" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert str(tmp_path / ".watersmeet" / "pipeline.log") in failed.stderr
    assert (tmp_path / ".watersmeet" / "pipeline.log").stat().st_size > 0


@pytest.mark.variant  # measuring is tested in a session, planning by it without one
def test_analyze_measures_what_explain_then_plans_by(tmp_path: Path, long_mode: bool) -> None:
    declared = FILES.split("SELECT DISTINCT")[0]
    undeclared = declared.replace("s1 (k BIGINT, v STRING, ts TIMESTAMP)", "s1")
    write(tmp_path, undeclared)
    write_rows(tmp_path / "s1" / "0.parquet", [(second % 4, "a", second) for second in range(41)])
    write_rows(tmp_path / "s2" / "0.parquet", [(second % 4, "b", 2 * second) for second in range(41)])
    measured = run_cli(tmp_path, "analyze", "pipeline.sql", *MASTER)
    assert measured.returncode == 0, measured.stderr
    streams = json.loads((tmp_path / "pipeline.stats.json").read_text())["streams"]
    assert {name: facts["rate_per_s"] for name, facts in streams.items()} == {"s1": 1.0, "s2": 0.5}
    # Columns that are not declared take a Spark session, and no more: `analyze` has inferred them already.
    write(tmp_path, undeclared if long_mode else declared)
    explained = run_cli(tmp_path, "explain", "pipeline.sql", "--master", "local[2]", "--json")
    assert explained.returncode == 0, explained.stderr
    assert json.loads(explained.stdout)["notes"] == []
    assert explained.stderr == ""
