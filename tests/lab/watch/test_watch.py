"""Watching: what is shown is what the protocols sent and what their nodes keep."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from watersmeet.cli.lab import lab_commands
from watersmeet.errors import ConfigurationError
from watersmeet.lab.watch.page import to_page
from watersmeet.lab.watch.recording import Event, Holding, Recording, Step
from watersmeet.lab.watch.scenarios import SCENARIOS, record
from watersmeet.lab.watch.text import step_text, to_text

GOLDEN = Path(__file__).parent / "golden" / "rjoin_figure_1.txt"


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    plain: dict[str, object] = json.loads(found[1])
    return plain


def test_rjoin_shows_the_messages_of_the_golden_transcript() -> None:
    """RJoin's Figure 1: every message with the nodes it passes, in order."""
    lines: list[str] = []
    for number, event in enumerate(record("rjoin").events, start=1):
        lines.append(f"Event {number}: {event.title}")
        lines += [f"  {step_text(step)}" for step in event.steps]
    assert lines == GOLDEN.read_text().splitlines()


def test_rjoin_queries_and_tuples_sit_where_their_messages_went() -> None:
    recording = record("rjoin")
    for event in recording.events:
        for step in event.steps:
            kept = [holding.text for holding in step.holdings[step.path[-1]]]
            if step.kind == "answer":
                assert "(6, 9) of q1" in kept
            else:
                assert any(text.startswith(step.text) for text in kept), step
    assert Holding("answer", "(6, 9) of q1") in recording.at_end[0]


def test_rjoin_tuples_leave_the_altt_when_they_expire() -> None:
    first, second = record("rjoin").events[1:3]
    assert any("in the ALTT" in kept.text for kept in second.before[8])
    assert not any("R(2, 5, 8) under R+A, in the ALTT" in kept.text for kept in second.steps[-1].holdings[8])
    assert first.before.get(4) is None


def test_dhtjoin_reaches_everyone_and_indexes_only_what_the_query_needs() -> None:
    early, posed, *published = record("dhtjoin").events
    assert not early.steps, "no query needs the first tuple yet"
    assert [step.kind for step in posed.steps] == ["disseminate"] * 7
    assert sorted(step.path[-1] for step in posed.steps) == [0, 1, 3, 4, 5, 6, 7]
    indexed = [step for event in published for step in event.steps if step.kind == "index tuple"]
    assert [(step.key, step.text.split(" under ")[0]) for step in indexed] == [
        ("number 7", "X(2, 7)"),
        ("number 7", "Y(3, 7)"),
        ("number 9", "Z(4, 9)"),
        ("number 7", "Z(5, 7)"),
    ]
    assert len({step.path[-1] for step in indexed if step.key == "number 7"}) == 1


def test_dhtjoin_ends_with_the_answer_at_the_node_that_asked() -> None:
    recording = record("dhtjoin")
    last = recording.events[-1].steps[-1]
    assert (last.kind, last.text) == ("answers", "answer (2, 3, 5) of q1")
    assert recording.at_end[2] == [
        Holding("query", "q1 in the query table"),
        Holding("answer", "(2, 3, 5) of q1"),
    ]
    everyone = Holding("query", "q1 in the query table")
    assert all(everyone in recording.at_end[node] for node in recording.nodes)
    kept = [holding.text for node in recording.nodes for holding in recording.at_end[node]]
    assert not any("X(1, 7)" in text for text in kept), "the tuple that came too early is nowhere"


def test_text_has_a_line_for_each_message_and_node() -> None:
    recording = record("dhtjoin")
    text = to_text(recording)
    steps, ring = text.split("The ring after 12 messages:\n")
    assert len(re.findall(r"^  \w.*: ", steps, re.MULTILINE)) == 12
    assert re.findall(r"^  node (\d+)", ring, re.MULTILINE) == [str(node) for node in recording.nodes]


@pytest.mark.parametrize("name", SCENARIOS)
def test_page_shows_every_message_and_needs_nothing_else(name: str) -> None:
    recording = record(name)
    page = to_page(recording)
    frames = data_of(page)["frames"]
    assert isinstance(frames, list)
    shown = [(tuple(frame["path"]), frame["kind"], frame["key"]) for frame in frames if "kind" in frame]
    sent = [(step.path, step.kind, step.key) for event in recording.events for step in event.steps]
    assert shown == sent
    assert len(frames) == len(sent) + len(recording.events)
    final = {int(node): [tuple(kept) for kept in here] for node, here in frames[-1]["holdings"].items()}
    at_end = recording.at_end.items()
    assert final == {node: [(kept.what, kept.text) for kept in here] for node, here in at_end}

    outside: list[tuple[str, str | None]] = []

    class Finder(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            outside.extend(pair for pair in attrs if pair[0] in ("src", "href"))

    Finder().feed(page)
    assert not outside
    assert not re.search(r"@import|url\(|fetch\(|import\(", page)


def test_page_takes_no_text_for_markup() -> None:
    text = "</script><b>x"
    step = Step(
        time_us=0, path=(0, 1), kind="tuple", key="$data", text=text, holdings={1: [Holding("tuple", text)]}
    )
    recording = Recording("a < b", (0, 1), (Event("poses a < b", 0, {}, (step,)),), step.holdings)
    page = to_page(recording)
    assert text not in page
    assert "<title>a &lt; b</title>" in page
    frames = data_of(page)["frames"]
    assert isinstance(frames, list)
    assert (frames[1]["text"], frames[1]["key"]) == (text, "$data")


def test_unknown_scenario_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'pmjoin' to watch; there are rjoin, dhtjoin"):
        record("pmjoin")


def test_command_prints_by_default_and_writes_when_asked(tmp_path: Path) -> None:
    runner = CliRunner()
    printed = runner.invoke(lab_commands, ["watch", "rjoin"])
    assert printed.exit_code == 0
    assert printed.stdout == to_text(record("rjoin"))
    out = tmp_path / "watch.html"
    written = runner.invoke(lab_commands, ["watch", "dhtjoin", "--out", str(out)])
    assert (written.exit_code, written.stdout) == (0, "")
    assert out.read_text() == to_page(record("dhtjoin"))
    both = runner.invoke(lab_commands, ["watch", "dhtjoin", "--text", "--out", str(out)])
    assert both.stdout == to_text(record("dhtjoin"))


def test_command_says_when_it_cannot_write(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        lab_commands, ["watch", "rjoin", "--out", str(tmp_path / "no" / "watch.html")]
    )
    assert isinstance(result.exception, ConfigurationError)
    assert "cannot be written" in str(result.exception)
