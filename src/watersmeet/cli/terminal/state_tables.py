"""What a query keeps, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from watersmeet.cli.terminal.progress_display import count, instant
from watersmeet.query.byte_size import format_bytes
from watersmeet.spark.inspect.read_state import SectionReport
from watersmeet.spark.inspect.sections import Holding, Section
from watersmeet.spark.inspect.state_report import StateReport, sums

_COUNTED = ("live", "copies", "kept", "bytes", "oldest live", "newest live")


def render_state(name: str, report: StateReport, *, by_bucket: bool) -> RenderableType:
    """A row for each input, and for what waits or is joined already; below it the most frequent values."""
    title = f"{name}: after batch {report.batch}, watermark {instant(report.watermark)}"
    parts: list[RenderableType] = [Text(title, style="bold"), _sections(report, by_bucket)]
    frequent = list(_frequent(report))
    if frequent:
        parts += [Text(), *frequent]
    if report.has_copies_of_hot_values:
        parts.append(
            Text("Tuples of frequent values are in several buckets, and each of their copies is counted.")
        )
    return Group(*parts)


def _sections(report: StateReport, by_bucket: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("rows of", "window", *(["bucket"] if by_bucket else [])):
        table.add_column(name)
    for name in _COUNTED:
        table.add_column(name, justify="right")
    for section, parts in report.sections().items():
        named = [Text(_name(section)), Text(section.window.pretty() if section.window else "")]
        if not by_bucket:
            table.add_row(*named, *_cells(parts))
        for number, part in enumerate(parts if by_bucket else ()):
            table.add_row(*(named if number == 0 else ["", ""]), str(part.bucket), *_cells([part]))
    return table


def _cells(parts: Sequence[SectionReport]) -> Iterator[str]:
    found = sums(parts)
    yield from (count(found[name]) for name in ("live", "copies", "kept"))
    yield format_bytes(found["bytes"])
    yield from (instant(found[name]) for name in ("oldest_us", "newest_us"))


def _name(section: Section) -> str:
    match section.holds:
        case Holding.COPIES:
            return f"{section.of}, by another key"
        case Holding.WAITING:
            return f"{section.of}, waiting"
        case Holding.RESULTS:
            return f"results of {section.of}"
        case Holding.ANSWERS:
            return f"{section.of}, kept until they end"
        case _:
            return section.of


def _frequent(report: StateReport) -> Iterator[Text]:
    for section, parts in report.sections().items():
        for text, own in report.frequent(parts).items() if section.holds is Holding.TUPLES else ():
            listed = ", ".join(f"{value} {count(number)}" for value, number in own.items())
            yield Text(f"{text}: {listed}")
