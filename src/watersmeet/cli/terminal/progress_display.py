"""A running query on the screen: one live table, plain lines where there is no terminal, or JSON lines."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from watersmeet.query import NEVER
from watersmeet.query.byte_size import format_bytes
from watersmeet.spark.metrics.progress import InputProgress, Progress


class Display(Protocol):
    """Something that shows progress as it is made; `query` names the query where there are several."""

    def show(self, progress: Progress, query: str = "") -> None: ...


@contextlib.contextmanager
def open_display(
    console: Console, *, title: str = "", as_json: bool = False, as_lines: bool = False
) -> Iterator[Display]:
    """The display that suits the console, until the block ends."""
    if as_json:
        yield _Lines(console, render_json)
    elif as_lines or not console.is_terminal:
        yield _Lines(console, render_line)
    else:
        waiting = Text(f"{title}\nwaiting for the first batch", style="dim")
        with Live(waiting, console=console, auto_refresh=False, transient=False) as live:
            yield _Screen(live, title)


class _Lines:
    """One line a batch."""

    def __init__(self, console: Console, render: _Render) -> None:
        self.console = console
        self.render = render
        self.last: dict[str, Progress] = {}

    def show(self, progress: Progress, query: str = "") -> None:
        if progress != self.last.get(query):
            line = self.render(progress, query)
            self.console.print(line, markup=False, highlight=False, soft_wrap=True, emoji=False)
        self.last[query] = progress


class _Screen:
    """One screen, drawn over itself."""

    def __init__(self, live: Live, title: str) -> None:
        self.live = live
        self.title = title
        self.last: dict[str, Progress] = {}

    def show(self, progress: Progress, query: str = "") -> None:
        self.last[query] = progress
        several = len(self.last) > 1
        screen = render_queries(self.last, self.title) if several else render_screen(progress, self.title)
        self.live.update(screen, refresh=True)


class _Render(Protocol):
    def __call__(self, progress: Progress, query: str, /) -> str: ...


def render_json(progress: Progress, query: str = "") -> str:
    """Progress as one line of JSON."""
    named = {"query": query} if query else {}
    return json.dumps({"event": "progress", **named, **progress.as_json()})


def render_line(progress: Progress, query: str = "") -> str:
    """Progress as one line of text."""
    inputs = ", ".join(f"{item.alias} {count(item.rows_per_s)}/s" for item in progress.inputs)
    parts = [
        *([query] if query else []),
        f"batch {progress.batch_id}",
        f"{progress.batch_ms} ms",
        inputs or "no input",
        f"answers {count(progress.answers)} ({count(progress.answers_per_s)}/s)",
        f"state {count(progress.state_rows)} rows {format_bytes(progress.state_bytes)}",
        f"late {count(progress.late)}",
        *([f"ahead {count(progress.ahead)}"] if progress.totals.ahead else []),
        *([f"malformed {count(progress.malformed)}"] if progress.totals.malformed else []),
        *([f"shed {count(progress.shed)}", _complete(progress)] if progress.state_limit else []),
        *([f"hot values {progress.hot_values}"] if progress.hot_values else []),
        f"watermark {instant(progress.watermark_us)}",
        *([progress.notice] if progress.notice else []),
    ]
    return " | ".join(parts)


def render_screen(progress: Progress, title: str = "") -> RenderableType:
    """Progress as a screen: a row for each input, then the query as a whole."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("stream")
    for name in ("rows/s", "rows", "late", "newest", "before watermark"):
        table.add_column(name, justify="right")
    for item in progress.inputs:
        table.add_row(*_cells(item))
    facts, totals = Table.grid(padding=(0, 2)), progress.totals
    facts.add_row("answers", f"{count(progress.answers_per_s)}/s", f"{count(totals.answers)} in all")
    facts.add_row("state", f"{count(progress.state_rows)} rows", format_bytes(progress.state_bytes))
    facts.add_row("late", count(progress.late), f"{count(totals.late)} in all")
    if totals.ahead:
        facts.add_row("too far ahead", count(progress.ahead), f"{count(totals.ahead)} in all")
    if totals.malformed:
        facts.add_row("malformed", count(progress.malformed), f"{count(totals.malformed)} in all")
    if progress.state_limit:
        facts.add_row("shed", count(progress.shed), f"{count(progress.totals.shed)} in all")
        facts.add_row(
            "complete", f"{progress.completeness:.1%}", f"{progress.totals.completeness:.1%} in all"
        )
        memory = f"{format_bytes(progress.memory_bytes)} of {format_bytes(progress.state_limit)}"
        facts.add_row("memory", memory, progress.notice)
    if progress.hot_values:
        share = f"busiest bucket {progress.busiest_share:.2f}x the mean"
        facts.add_row("hot values", count(progress.hot_values), share)
    kernel = f"join {progress.kernel_ms:.0f} ms over all buckets"
    facts.add_row("batch", f"{progress.batch_ms} ms", f"number {progress.batch_id}, {kernel}")
    facts.add_row("watermark", instant(progress.watermark_us), "")
    head = [Text(title, style="bold cyan")] if title else []
    return Group(*head, table, Text(), facts)


def render_queries(queries: Mapping[str, Progress], title: str = "") -> RenderableType:
    """The progress of several queries as a screen: a row for each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("query")
    for name in ("batch", "ms", "rows/s", "answers/s", "answers", "state", "late", "watermark"):
        table.add_column(name, justify="right")
    for query, progress in sorted(queries.items()):
        table.add_row(
            Text(query),
            str(progress.batch_id),
            str(progress.batch_ms),
            count(progress.rows_per_s),
            count(progress.answers_per_s),
            count(progress.totals.answers),
            format_bytes(progress.state_bytes),
            count(progress.totals.late),
            instant(progress.watermark_us),
        )
    head = [Text(title, style="bold cyan")] if title else []
    return Group(*head, table)


def _complete(progress: Progress) -> str:
    return f"complete {progress.completeness:.1%} ({progress.totals.completeness:.1%} in all)"


def _cells(item: InputProgress) -> tuple[str, ...]:
    late = f"[yellow]{count(item.late)}[/]" if item.late else "0"
    # After a flush the watermark is at the end of time, and no stream is before it.
    before = "-" if item.ahead_us is None or item.ahead_us < 0 else duration(item.ahead_us)
    alias = item.alias.replace("[", r"\[")
    return (alias, count(item.rows_per_s), count(item.rows), late, instant(item.max_ts_us), before)


def count(number: float) -> str:
    """A number short enough to read at a glance.

    >>> count(950), count(12_345), count(7_200_000)
    ('950', '12.3k', '7.2M')
    """
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= unit:
            return f"{number / unit:.1f}{letter}"
    return f"{number:.0f}"


def duration(microseconds: int) -> str:
    """A stretch of time in its natural unit, such as '2.5 s'."""
    for unit, name in ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s")):
        if abs(microseconds) >= unit:
            return f"{microseconds / unit:.1f} {name}"
    return f"{microseconds / 1000:.0f} ms"


def instant(microseconds: int | None) -> str:
    """An event time in UTC, to the millisecond."""
    if microseconds is None:
        return "-"
    if microseconds == NEVER:
        return "the end of time"
    try:
        seconds, rest = divmod(microseconds, 1_000_000)
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{microseconds} us"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest // 1000:03d}"
