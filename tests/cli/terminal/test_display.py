from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from watersmeet.cli.terminal.progress_display import (
    count,
    duration,
    instant,
    open_display,
    render_line,
    render_queries,
    render_screen,
)
from watersmeet.query import NEVER
from watersmeet.query.byte_size import format_bytes
from watersmeet.spark.metrics.progress import InputProgress, Progress, Totals

PROGRESS = Progress(
    batch_id=7,
    timestamp="2025-01-01T00:00:10.000Z",
    batch_ms=412,
    inputs=(
        InputProgress(
            alias="r1",
            rows=12_000,
            rows_per_s=12_345.6,
            late=0,
            null_times=0,
            max_ts_us=1_735_689_610_250_000,
            ahead_us=2_500_000,
        ),
        InputProgress(
            alias="r[2]", rows=800, rows_per_s=800.0, late=3, null_times=0, max_ts_us=None, ahead_us=None
        ),
    ),
    watermark_us=1_735_689_607_750_000,
    state_rows=1_250_000,
    state_bytes=48_000_000,
    answers=950,
    answers_per_s=950.0,
    kernel_ms=33.3,
    totals=Totals(rows=90_000, late=5, answers=6_100, batches=8),
)

SCREEN = """\
three routers
stream  rows/s   rows  late                   newest  before watermark
r1       12.3k  12.0k     0  2025-01-01 00:00:10.250             2.5 s
r[2]       800    800     3                        -                 -

answers    950/s                    6.1k in all
state      1.2M rows                48.0 MB
late       3                        5 in all
batch      412 ms                   number 7, join 33 ms over all buckets
watermark  2025-01-01 00:00:07.750
"""


def _console(*, is_terminal: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=is_terminal, width=100, color_system=None), out


def _unpadded(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))


def test_the_screen_shows_every_stream_and_the_query() -> None:
    console, out = _console(is_terminal=False)
    console.print(render_screen(PROGRESS, "three routers"))
    assert _unpadded(out.getvalue()) == SCREEN


QUERIES = """\
two queries
query      batch   ms  rows/s  answers/s  answers    state  late                watermark
1-common       7  412   13.1k        950     6.1k  48.0 MB     5  2025-01-01 00:00:07.750
2-[other]      3   80   13.1k        950     6.1k  48.0 MB     5          the end of time
"""


def test_several_queries_share_the_screen_a_row_each() -> None:
    console, out = _console(is_terminal=False)
    other = replace(PROGRESS, batch_id=3, batch_ms=80, watermark_us=NEVER)
    console.print(render_queries({"2-[other]": other, "1-common": PROGRESS}, "two queries"))
    assert _unpadded(out.getvalue()) == QUERIES


def test_several_queries_are_shown_by_name() -> None:
    console, out = _console(is_terminal=False)
    with open_display(console) as display:
        for query in ("1-common", "2-other"):
            display.show(PROGRESS, query)
    assert [line.split(" | ")[0] for line in out.getvalue().splitlines()] == ["1-common", "2-other"]


def test_a_terminal_that_shows_answers_gets_lines() -> None:
    console, out = _console(is_terminal=True)
    with open_display(console, as_lines=True) as display:
        display.show(PROGRESS)
    assert out.getvalue() == render_line(PROGRESS) + "\n"


def test_a_line_says_the_same_in_short() -> None:
    assert render_line(PROGRESS) == (
        "batch 7 | 412 ms | r1 12.3k/s, r[2] 800/s | answers 950 (950/s) | state 1.2M rows 48.0 MB | "
        "late 3 | watermark 2025-01-01 00:00:07.750"
    )


def test_a_pipe_gets_plain_lines_each_batch_once() -> None:
    console, out = _console(is_terminal=False)
    with open_display(console, title="three routers") as display:
        display.show(PROGRESS)
        display.show(PROGRESS)
    assert out.getvalue() == render_line(PROGRESS) + "\n"


def test_json_is_one_document_a_line_even_on_a_terminal() -> None:
    console, out = _console(is_terminal=True)
    with open_display(console, as_json=True) as display:
        display.show(PROGRESS, "1-common")
    lines = out.getvalue().splitlines()
    assert len(lines) == 1
    document = json.loads(lines[0])
    assert document["query"] == "1-common"
    assert (document["event"], document["batch_id"], document["inputs"][1]["late"]) == ("progress", 7, 3)


def test_a_terminal_gets_a_screen_that_stays_after_the_end() -> None:
    console, out = _console(is_terminal=True)
    with open_display(console, title="three routers") as display:
        display.show(PROGRESS)
    assert "waiting for the first batch" in out.getvalue()
    assert "6.1k in all" in out.getvalue().split("three routers")[-1]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (count(0), "0"),
        (count(999), "999"),
        (count(1_000_000), "1.0M"),
        (format_bytes(999), "999 B"),
        (format_bytes(1_500), "1.5 kB"),
        (format_bytes(3e9), "3.0 GB"),
        (duration(250_000), "250 ms"),
        (duration(90_000_000), "1.5 min"),
        (duration(-2_000_000), "-2.0 s"),
        (instant(None), "-"),
        (instant(-1_000), "1969-12-31 23:59:59.999"),
        (instant(NEVER), "the end of time"),
        (instant(2**62), f"{2**62} us"),
    ],
)
def test_numbers_are_short_and_in_their_natural_unit(shown: str, expected: str) -> None:
    assert shown == expected


def test_malformed_messages_are_shown_once_there_are_any() -> None:
    bad = replace(PROGRESS, malformed=2, totals=Totals(malformed=12))
    assert "| malformed 2 |" in render_line(bad)
    assert "malformed" not in render_line(PROGRESS)
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(render_screen(bad))
    assert [line.split() for line in console.export_text().splitlines() if "malformed" in line] == [
        ["malformed", "2", "12", "in", "all"]
    ]


def test_tuples_of_the_far_future_are_shown_once_there_are_any() -> None:
    first, second = PROGRESS.inputs
    some = replace(PROGRESS, inputs=(replace(first, ahead=3), second), totals=Totals(ahead=14))
    assert "| ahead 3 |" in render_line(some)
    assert "ahead" not in render_line(PROGRESS)
    assert some.as_json()["ahead"] == 3
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(render_screen(some))
    assert [line.split() for line in console.export_text().splitlines() if "too far ahead" in line] == [
        ["too", "far", "ahead", "3", "14", "in", "all"]
    ]


def test_a_limit_of_memory_shows_what_was_shed_and_how_complete_answers_are() -> None:
    assert "shed" not in render_line(PROGRESS)
    first, second = PROGRESS.inputs
    limited = replace(
        PROGRESS,
        inputs=(replace(first, shed=1500), second),
        totals=Totals(shed=20_000, combinations=90, missed=10),
        completeness=0.875,
        memory_bytes=1_900_000,
        state_limit=2_000_000,
        notice="batches are 2 times smaller now",
    )
    line = render_line(limited)
    assert "| shed 1.5k | complete 87.5% (90.0% in all) |" in line
    assert line.endswith("| batches are 2 times smaller now")
    console = Console(width=100, file=io.StringIO(), force_terminal=False)
    with console.capture() as captured:
        console.print(render_screen(limited))
    for shown in ("20.0k in all", "87.5%", "1.9 MB of 2.0 MB", "batches are 2 times smaller now"):
        assert shown in captured.get()
