"""The command line as far as it goes without Java: what is refused and how, and what needs no Spark."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from tests.paths import ROOT
from watersmeet import DataError, __version__
from watersmeet.cli import main
from watersmeet.cli.lazy_commands import COMMANDS, load_command
from watersmeet.cli.run_request import Request
from watersmeet.cli.spark_session import explained
from watersmeet.cli.terminal.spark_log import open_log, trim_log
from watersmeet.cli.terminal.stop_signals import catch_stop
from watersmeet.plan.sizing.state_size import ENTRY_BYTES, INDEX_BYTES

STREAMS = "".join(
    f"CREATE STREAM {name} (dest STRING, size BIGINT, ts TIMESTAMP) "
    f"WITH (format = 'parquet', path = '{name}', event_time = 'ts');\n"
    for name in ("s1", "s2")
)
SELECT = "SELECT a.dest FROM s1 [RANGE 10 MINUTES] AS a, s2 [RANGE 10 MINUTES] AS b WHERE a.dest = b.dest;\n"


pytestmark = pytest.mark.usefixtures("no_java")


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.sql"
    path.write_text(STREAMS + SELECT)
    return path


class Said:
    """What a command said, and its exit code."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> None:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        self.code = end.value.code or 0
        self.out, self.err = capsys.readouterr()
        assert "Traceback" not in self.out + self.err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    said = Said(capsys, "--version")
    assert (said.code, said.out) == (0, f"watersmeet {__version__}\n")


def test_help_lists_every_command_and_loads_no_spark() -> None:
    script = (
        "import sys\n"
        "from watersmeet.cli import main\n"
        "try:\n    main(['--help'])\n"
        "finally:\n    assert not {'pyspark', 'pyarrow', 'numba'} & set(sys.modules)\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    for name in COMMANDS:
        assert re.search(rf"^\W*{name} ", shown.stdout, flags=re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_with_the_first_sentence_of_its_own_help(name: str) -> None:
    assert load_command(name).help.split("\n\n")[0].replace("\n", " ") == COMMANDS[name].summary


def test_explain_needs_no_java_where_columns_are_declared(
    capsys: pytest.CaptureFixture[str], pipeline: Path
) -> None:
    said = Said(capsys, "explain", pipeline)
    assert said.code == 0
    assert "join type 1: a, b" in said.out
    assert "for 10 min behind the watermark" in said.out


def test_explain_as_json_and_as_a_picture(
    capsys: pytest.CaptureFixture[str], pipeline: Path, tmp_path: Path
) -> None:
    said = Said(capsys, "explain", pipeline, "--json", "--partitions", 6, "--svg", tmp_path / "plan.svg")
    document = json.loads(said.out)
    assert (document["strategy"], document["engine"]["partitions"]) == ("shares", 6)
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")


def test_several_queries_are_explained_by_name(
    capsys: pytest.CaptureFixture[str], pipeline: Path, tmp_path: Path
) -> None:
    sink = "CREATE SINK kept WITH (format = 'parquet', path = 'out');\n"
    pipeline.write_text(f"{STREAMS}{sink}INSERT INTO kept {SELECT}{SELECT}")
    said = Said(capsys, "explain", pipeline, "--svg", tmp_path / "plan.svg")
    assert said.out.startswith("kept\n\n")
    assert "\n\nconsole\n\n" in said.out
    assert {path.name for path in tmp_path.glob("*.svg")} == {"plan-kept.svg", "plan-console.svg"}
    documents = json.loads(Said(capsys, "explain", pipeline, "--json").out)
    assert [document["query"] for document in documents] == ["kept", "console"]


def test_explain_of_undeclared_columns_asks_for_java(
    capsys: pytest.CaptureFixture[str], pipeline: Path
) -> None:
    pipeline.write_text(
        "CREATE STREAM s1 WITH (format = 'parquet', path = 's1', event_time = 'ts');\n"
        "SELECT a.dest FROM s1 [RANGE 10 MINUTES] AS a;\n"
    )
    said = Said(capsys, "explain", pipeline)
    assert said.code == 2
    assert said.err.startswith("error: Spark needs Java 17 or newer")


def test_without_java_run_says_how_to_install_it(capsys: pytest.CaptureFixture[str], pipeline: Path) -> None:
    said = Said(capsys, "run", pipeline)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: Spark needs Java 17 or newer")
    assert "sudo apt-get install openjdk-17-jre-headless" in said.err


def test_a_mistake_in_the_sql_is_shown_where_it_stands(
    capsys: pytest.CaptureFixture[str], pipeline: Path
) -> None:
    pipeline.write_text(STREAMS + SELECT.replace("b.dest", "b.dets"))
    said = Said(capsys, "run", "pipeline.sql")
    assert said.code == 2
    lines = said.err.split("\n")
    assert lines[0].startswith("error: pipeline.sql:3:")
    assert lines[1].endswith("WHERE a.dest = b.dets;")
    assert lines[2].index("^") == lines[1].index("b.dets") or lines[2].index("^") == lines[1].index("dets")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run nowhere.sql", "nowhere.sql cannot be read: No such file or directory"),
        ("explain nowhere.sql", "nowhere.sql cannot be read: No such file or directory"),
        ("run pipeline.sql --flush", "--flush ends the input, so it goes with --available-now"),
        ("run pipeline.sql --available-now --trigger 1s", "--trigger is for a query that keeps running"),
        ("run pipeline.sql --hot-keys perhaps", "--hot-keys perhaps: write on or off"),
        ("bench joins --engines ours,fast", "there is no engine fast; there are ours, cascade"),
        ("run pipeline.sql --trigger soon", "--trigger: 'soon' is not a duration"),
        ("run pipeline.sql --conf memory", "--conf memory: write KEY=VALUE"),
        ("run pipeline.sql --stats nowhere.json", "nowhere.json: cannot read statistics"),
        ("run pipeline.sql --log pipeline.sql/log", "--log pipeline.sql/log cannot be written"),
        ("run empty.sql", "empty.sql:1:1: there is no statement here"),
        ("run streams.sql", "streams.sql declares streams but has no query"),
        ("explain pipeline.sql --strategy fastest", "no strategy 'fastest': choose one of auto"),
        ("explain pipeline.sql --svg no/where.svg", "--svg no/where.svg cannot be written"),
        ("size --rate 5 --window 1s", "say what fits in a partition: --memory 256MB"),
        ("size pipeline.sql --rate 5", "a pipeline file has its own rates and windows"),
        ("size pipeline.sql --live nowhere", "nowhere has no progress of console: No such file"),
        ("size pipeline.sql --live x --memory 1MB", "--live computes the memory that is needed"),
        ("run pipeline.sql --state-limit much", "--state-limit: 'much' is not a size"),
        ("run pipeline.sql --shed least", "--shed least says what to shed; say from which size on"),
        ("size --memory 1MB", "name a pipeline file, or type in --rate and --window"),
        ("size --memory 1MB --rate 5 --window 3parsecs", "'3parsecs' is not a duration"),
        ("size pipeline.sql --memory 1MB --rate 5", "a pipeline file has its own rates and windows"),
        ("size pipeline.sql --memory much", "--memory: 'much' is not a size: write a number and a unit"),
        ("size pipeline.sql --memory 1MB --completeness 2", "completeness is above 0 and at most 1, not 2"),
        ("size pipeline.sql --memory-tuples a", "--memory-tuples a: write ALIAS=N"),
        ("size pipeline.sql --memory-tuples z=5", "memory is given for z, but the query's inputs are a, b"),
        ("lab figure nothing-1", "there is no figure 'nothing-1'"),
    ],
)
def test_what_will_not_do_is_one_message_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], pipeline: Path, arguments: str, message: str
) -> None:
    Path("empty.sql").write_text("")
    Path("streams.sql").write_text(STREAMS)
    said = Said(capsys, *arguments.split())
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: {message}")


@pytest.mark.parametrize(
    "arguments",
    [
        "run",
        "run pipeline.sql --colour",
        "fly",
        "explain a.sql --partitions 0",
        "bench netmon3",
        "bench skew 5",
    ],
)
def test_arguments_that_do_not_exist_are_refused(capsys: pytest.CaptureFixture[str], arguments: str) -> None:
    assert Said(capsys, *arguments.split()).code == 2


def test_size_shows_the_partitions_a_completeness_takes(
    capsys: pytest.CaptureFixture[str], pipeline: Path
) -> None:
    said = Said(
        capsys, "size", pipeline, "--memory-tuples", "a=60000", "--memory-tuples", "b=60000",
        "--completeness", "0.81", "--json",
    )  # fmt: skip
    # By default 1,000 tuples/s over 10 minutes: 600,000 of each, of which 0.9 must be kept.
    assert json.loads(said.out)["partitions_needed"] == 9


def test_size_shows_the_memory_by_statistics_and_by_the_progress_of_a_run(
    capsys: pytest.CaptureFixture[str], pipeline: Path, tmp_path: Path
) -> None:
    plain = Said(capsys, "size", pipeline, "--json", "--partitions", "2")
    assumed = json.loads(plain.out)
    # By default 1,000 tuples/s of 100 bytes over 10 minutes.
    assert [item["window_tuples"] for item in assumed["inputs"]] == [600_000, 600_000]
    assert assumed["state_bytes"] == 2 * 600_000 * (100 + ENTRY_BYTES + INDEX_BYTES)
    facts = {"kept": 100, "kept_bytes": 2000, "event_rows_per_s": 10.0}
    progress = {"inputs": [{"alias": alias, **facts} for alias in "ab"], "memory_bytes": 10_000}
    (tmp_path / "console").mkdir()
    (tmp_path / "console" / "progress.json").write_text(json.dumps(progress))
    live = json.loads(Said(capsys, "size", pipeline, "--live", tmp_path, "--json").out)
    assert live["state_bytes"] == 2 * 6000 * 50
    lines = ["+---+", json.dumps({"event": "progress", "query": "console", **progress}), '{"event": "end"}']
    (tmp_path / "out.jsonl").write_text("\n".join(lines))
    printed = json.loads(Said(capsys, "size", pipeline, "--live", tmp_path / "out.jsonl", "--json").out)
    assert printed["inputs"] == live["inputs"]


def test_size_takes_numbers_typed_in(capsys: pytest.CaptureFixture[str]) -> None:
    typed = "size --rate 1000 --rate 1000 --window 10min --memory-tuples 60000 --completeness 0.81 --json"
    assert json.loads(Said(capsys, *typed.split()).out)["partitions_needed"] == 9


def test_the_figures_of_the_lab_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    said = Said(capsys, "lab", "list")
    assert said.code == 0
    assert any(line.startswith("rjoin-2 ") for line in said.out.split("\n"))


def test_the_command_that_resumes_is_the_one_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []
    monkeypatch.setattr("watersmeet.cli.run.run_pipeline", lambda request: asked.append(request) or 7)
    given = (
        "run 'my pipeline.sql' --master 'local[2]' --available-now --flush --trigger '1 s' "
        "--checkpoint 'the place' --conf spark.driver.memory=2g --conf a=b --stats s.json "
        "--state-limit 2GB --shed least --log l.log --hot-keys off --json"
    )
    with pytest.raises(SystemExit) as end:
        main(shlex.split(given))
    assert end.value.code == 7
    assert asked[0].command() == f"watersmeet {given}"
    assert Request(file=Path("pipeline.sql")).command() == "watersmeet run pipeline.sql"


def test_spark_logs_beside_the_checkpoint_unless_that_is_far_away(tmp_path: Path) -> None:
    beside = open_log(Request(file=tmp_path / "p.sql"))
    assert beside == tmp_path / ".watersmeet" / "p.log"
    assert beside.exists()
    assert open_log(Request(file=Path("p.sql"), checkpoint="s3a://bucket/place")).name == "spark.log"
    assert open_log(Request(file=Path("p.sql"), log=tmp_path / "own.log")) == tmp_path / "own.log"


def test_a_long_log_is_started_anew_and_its_writers_go_on(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 100)
        trim_log(log, max_bytes=100)
        assert log.stat().st_size == 100
        writer.write(b"y")
        trim_log(log, max_bytes=100)
        writer.write(b"after")
    assert log.read_bytes() == b"after"
    assert (tmp_path / "spark.log.1").read_bytes() == b"x" * 100 + b"y"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_asks_for_a_stop_and_a_second_one_interrupts(number: signal.Signals, code: int) -> None:
    before = signal.getsignal(number)
    with catch_stop() as stop:
        assert not stop
        os.kill(os.getpid(), number)
        assert stop
        assert stop.exit_code == code
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("document", ["README.md", "docs/pipeline-files.md"])
def test_the_sql_of_the_documents_can_be_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, document: str
) -> None:
    blocks = re.findall(r"```sql\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)
    assert len(blocks) >= 2
    streams = "".join(re.findall(r"CREATE STREAM .*?;\n", blocks[0], flags=re.DOTALL))
    for block in blocks:
        file = tmp_path / "document.sql"
        file.write_text(block if "CREATE STREAM" in block else streams + block)
        assert Said(capsys, "explain", file).code == 0


def test_what_spark_raises_is_put_plainly_and_our_own_mistakes_are_not_hidden() -> None:
    assert str(explained(PySparkException("Java heap space"))).startswith("Spark ran out of memory")
    for lost in (
        ConnectionRefusedError("connection refused"),
        Py4JNetworkError("Error while sending or receiving"),
        Py4JError("An error occurred while calling o415.isActive"),
    ):
        assert "Spark's process has ended: it was killed, or it crashed" in str(explained(lost))
    with pytest.raises(BrokenPipeError):
        explained(BrokenPipeError("nobody reads the output"))
    mine = DataError("a message")
    assert explained(mine) is mine
    with pytest.raises(KeyError):
        explained(KeyError("a bug"))
