"""submit, drop, resume, list and tail, as far as they go without Java; a fake engine is behind the server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_cli import ROOT, Said
from tests.serve.fake_engine import FakeEngine
from tests.serve.registry.dataflows import CHAIN, PAIR, PLANNER, SINKS, STREAMS, new_record
from watersmeet.serve.create_dataflow import CreationOptions, draft_dataflow
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import require_record, write_record
from watersmeet.serve.registry.requests import Submit
from watersmeet.serve.registry.tail_files import TailWriter
from watersmeet.serve.server import Server
from watersmeet.spark.multiquery.culprits import Blame

pytestmark = pytest.mark.usefixtures("no_java")


@pytest.fixture
def dataflow(tmp_path: Path) -> RegistryFolder:
    """A shared dataflow that nobody serves."""
    folder = RegistryFolder(tmp_path / "flow")
    write_record(folder, new_record(tmp_path))
    return folder


@pytest.fixture
def served(dataflow: RegistryFolder) -> Iterator[RegistryFolder]:
    """A shared dataflow that is served while the test runs."""
    stop = threading.Event()

    def serve() -> None:
        with dataflow.serving():
            Server(
                folder=dataflow,
                record=require_record(dataflow),
                engine=FakeEngine(is_busy=False, blamed={"bad": Blame("'x' is no number")}),
                planner=PLANNER,
            ).serve(until=stop.is_set)

    thread = threading.Thread(target=serve)
    thread.start()
    while not dataflow.is_served():
        pass
    yield dataflow
    stop.set()
    thread.join()


def test_a_session_of_commands(capsys: pytest.CaptureFixture[str], served: RegistryFolder) -> None:
    Path("chain.sql").write_text(f"-- the first\nINSERT INTO out {CHAIN};\n")
    said = Said(capsys, "submit", "flow", "chain", "chain.sql")
    assert (said.code, said.err) == (0, "")
    since = int(said.out.removeprefix("chain from batch ").removesuffix(" on\n"))
    assert require_record(served).staying["chain"].since == since
    Path("many.sql").write_text(f"{PAIR.format(1)};\n-- name: named\n{PAIR.format(2)};\n{PAIR.format(3)}")
    said = Said(capsys, "submit", "flow", "pairs", "--many", "many.sql")
    assert said.out.startswith("3 queries from batch ")
    assert list(require_record(served).staying) == ["chain", "pairs-1", "named", "pairs-3"]
    assert Said(capsys, "submit", "flow", "e", "-e", PAIR.format(4)).code == 0

    said = Said(capsys, "list", "flow")
    lines = said.out.splitlines()
    assert lines[0].startswith("shared dataflow 0123abcd, served")
    assert lines[1].split() == ["name", "since", "batch", "sink", "joins", "shared"]
    assert lines[2].split() == ["chain", str(since), "out", "2", "1"]
    assert json.loads(Said(capsys, "list", "flow", "--json").out)["queries"][2]["name"] == "named"

    said = Said(capsys, "drop", "flow", "named", "e", "named")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("2 queries until batch ")
    assert list(require_record(served).staying) == ["chain", "pairs-1", "pairs-3"]


def test_a_query_that_fails_is_listed_resumed_and_replaced(
    capsys: pytest.CaptureFixture[str], served: RegistryFolder
) -> None:
    for name in ("good", "bad"):
        assert Said(capsys, "submit", "flow", name, "-e", PAIR.format(1)).code == 0
    while not require_record(served).failed:
        pass
    first = require_record(served).failed["bad"].since
    assert f"bad has failed in batch {first}, " in Said(capsys, "list", "flow").out
    said = Said(capsys, "resume", "flow", "bad")
    assert said.code == 0
    resumed = int(said.out.removeprefix("bad from batch ").removesuffix(" on\n"))
    assert resumed > first
    said = Said(capsys, "resume", "flow", "good")
    assert (said.code, said.out) == (2, "")
    assert "query good has not failed: there is nothing to resume" in said.err
    assert Said(capsys, "submit", "flow", "good", "--replace", "-e", CHAIN).code == 0
    assert require_record(served).staying["good"].sql == CHAIN


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["submit", "flow", "chain", "-e", CHAIN], "there is a query chain already"),
        (
            ["submit", "flow", "x", "-e", f"INSERT INTO out {PAIR.format(1)}"],
            "query x into sink out: its answers",
        ),
        (
            ["submit", "flow", "x", "-e", "WITH v AS (SELECT k, ts FROM s1) SELECT a.k FROM v AS a"],
            "query:1:45: a shared dataflow takes the views that were declared when it was created",
        ),
        (["drop", "flow", "chian"], "there is no query chian: did you mean chain?"),
        (["drop", "flow", "chain", "nobody"], "there is no query nobody"),
    ],
)
def test_what_the_server_refuses(
    capsys: pytest.CaptureFixture[str], served: RegistryFolder, arguments: list[str], message: str
) -> None:
    Said(capsys, "submit", "flow", "chain", "-e", f"INSERT INTO out {CHAIN}")
    said = Said(capsys, *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: {message}")
    assert list(require_record(served).staying) == ["chain"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "submit nowhere x -e SELECT",
            "there is no shared dataflow in nowhere: create one with watersmeet serve nowhere",
        ),
        ("drop nowhere x", "there is no shared dataflow in nowhere"),
        ("list nowhere", "there is no shared dataflow in nowhere"),
        ("tail nowhere x", "there is no shared dataflow in nowhere"),
        ("tail flow x", "there is no query x: there are no queries at all"),
        ("submit flow x", "say what to submit, once: NAME FILE.sql, NAME -e"),
        ("submit flow x one.sql --many one.sql", "say what to submit, once"),
        ("submit flow -e SELECT", "a query needs a name"),
        ("submit flow a/b one.sql", "'a/b' cannot name a query"),
        ("submit flow x nowhere.sql", "nowhere.sql cannot be read: No such file or directory"),
        ("submit flow x wrong.sql", "wrong.sql:3:10: stream s1 has no column q"),
        ("submit flow --many wrong.sql", "wrong.sql:3:10: stream s1 has no column q"),
        ("submit flow x sink.sql", "sink.sql:1:13: there is no sink nowhere"),
        ("submit flow x two.sql", "two.sql:2:1: one statement at a time"),
        (
            "submit flow x streams.sql",
            "streams.sql:1:1: streams and sinks are declared when the dataflow is created",
        ),
        ("serve nowhere", "there is no shared dataflow in nowhere yet: name the streams it reads, --streams"),
        ("serve nowhere --streams none.sql", "none.sql cannot be read: No such file or directory"),
        ("serve nowhere --streams one.sql", "one.sql declares no stream: write CREATE STREAM"),
        ("serve nowhere --streams broken.sql", "broken.sql:7:10: stream s1 has no column q"),
        ("serve nowhere --streams streams.sql --levels 0", "--levels 0: a dataflow has 1 to 15 levels"),
        ("serve nowhere --streams streams.sql --trigger soon", "--trigger: 'soon' is not a duration"),
        ("serve flow --levels 2", "the dataflow in flow has 3 levels"),
        ("serve flow --checkpoint elsewhere", "the dataflow in flow keeps its checkpoint in"),
        (
            "serve flow --streams one-stream.sql",
            "one-stream.sql declares other streams or sinks than those the dataflow in",
        ),
        ("serve flow --streams streams.sql", "Spark needs Java 17 or newer"),
    ],
)
def test_what_will_not_do_is_one_message_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], dataflow: RegistryFolder, arguments: str, message: str
) -> None:
    wrong = "-- a query\n\nSELECT a.q FROM s1 AS a"
    Path("one.sql").write_text(CHAIN)
    Path("wrong.sql").write_text(wrong)
    Path("sink.sql").write_text(f"INSERT INTO nowhere {CHAIN}")
    Path("two.sql").write_text(f"{CHAIN};\n{CHAIN}")
    Path("streams.sql").write_text(STREAMS + SINKS)
    Path("one-stream.sql").write_text(STREAMS.splitlines()[0])
    Path("broken.sql").write_text(STREAMS + SINKS.splitlines()[0] + "\n" + wrong)
    said = Said(capsys, *arguments.split())
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: {message}")
    assert not Path("nowhere").exists() or not list(Path("nowhere").glob("dataflow.json"))


def test_without_a_server_a_request_waits_for_the_next(
    capsys: pytest.CaptureFixture[str], dataflow: RegistryFolder
) -> None:
    said = Said(capsys, "submit", "flow", "x", "-e", CHAIN)
    assert said.code == 2
    assert said.err.startswith(
        "error: no server runs on flow. The request waits there, and the next watersmeet"
    )
    said = Said(capsys, "submit", "flow", "y", "-e", CHAIN, "--no-wait")
    assert (said.code, said.out) == (0, "")
    assert said.err == "the request waits in flow: no server runs; the next one takes it\n"
    assert "2 requests wait" in Said(capsys, "list", "flow").out
    rounds = iter([False, True])
    Server(folder=dataflow, record=require_record(dataflow), engine=FakeEngine(), planner=PLANNER).serve(
        until=lambda: next(rounds)
    )
    assert list(require_record(dataflow).staying) == ["x", "y"]


def test_a_second_server_is_refused(capsys: pytest.CaptureFixture[str], served: RegistryFolder) -> None:
    said = Said(capsys, "serve", "flow")
    assert said.code == 2
    assert said.err.startswith("error: flow is served already: only one server at a time")


def test_tail_prints_each_answer_once(capsys: pytest.CaptureFixture[str], served: RegistryFolder) -> None:
    Said(capsys, "submit", "flow", "x", "-e", CHAIN)
    stop = threading.Event()

    def answer() -> None:
        tails, batch = TailWriter(served), 0
        while not stop.is_set():
            if "x" in tails.wanted():
                tails.append(batch, {"x": [f'{{"k": {batch}, "n": {n}}}' for n in range(2)]})
                tails.append(batch, {"x": ['{"k": "again"}', '{"k": "again"}']})
                batch += 1
            stop.wait(0.01)

    thread = threading.Thread(target=answer)
    thread.start()
    said = Said(capsys, "tail", "flow", "x", "--count", "5")
    stop.set()
    thread.join()
    assert said.code == 0
    rows = [json.loads(line) for line in said.out.splitlines()]
    first = rows[0]["k"]
    assert [(row["k"] - first, row["n"]) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]


def test_the_session_of_the_documents_can_be_had(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "many-queries.md").read_text()
    Path("shop.sql").write_text(text.split("```sql\n")[1].split("```")[0])
    folder = RegistryFolder(tmp_path / "documents")
    record, first = draft_dataflow(folder, CreationOptions(Path("shop.sql")), partitions=1)
    assert first is not None
    assert [name for name, _ in first.queries] == ["all-paid"]
    asked = {"first": first}
    for name in ("large", "totals"):
        statement = text.split(f'submit shop {name} -e "')[1].split('"')[0]
        asked[name] = Submit(((name, statement),))
    change = PLANNER.plan(PLANNER.bind(record), asked)
    assert change.accepted == ("first", "large", "totals")
    assert len(change.result.dataflow.joins) == 1


def test_what_is_no_folder_of_a_dataflow_is_refused_in_words(
    capsys: pytest.CaptureFixture[str], dataflow: RegistryFolder
) -> None:
    Path("file").touch()
    for command in ("list", "submit", "serve"):
        words = {"submit": ["a", "-e", "SELECT 1"], "serve": ["--streams", "streams.sql"]}.get(command, [])
        said = Said(capsys, command, "file", *words)
        assert said.code == 2
        assert "Not a directory" in said.err


def test_a_dataflow_that_was_moved_with_its_checkpoint_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It would begin anew where it was, and its sinks would get everything again."""
    made = RegistryFolder(tmp_path / "made")
    write_record(made, new_record(made.path))
    (made.path / "spark").mkdir()
    made.path.rename(tmp_path / "moved")
    said = Said(capsys, "serve", "moved")
    assert said.code == 2
    assert f"the checkpoint moved was made in {made.path}, and Spark keeps absolute paths" in said.err
