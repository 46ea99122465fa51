"""A Markdown page of figures that were run: each paper's claims, whether they hold, and our numbers.

It is made from the JSON files that `write_figure` left in a folder, so it says what was measured and no more.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from watersmeet.lab.figures.readable import readable, thinned

WIDTH = 120  # of a line of text; tables are as wide as they are
COLUMNS = 8  # points of a series shown


def figure_page(
    figures: Sequence[Mapping[str, Any]],
    *,
    folder: str = "figures",
    quick: bool = False,
    pictures: str | None = None,
) -> str:
    """The page's text.

    `folder` and `quick` are how the figures were run, for the commands at its top; `pictures` is where, seen
    from the page, their drawings are.
    """
    claims = [claim for figure in figures for claim in figure["claims"]]
    holding = sum(bool(claim["holds"]) for claim in claims)
    open_ = sum(not claim["holds"] and not claim.get("why") for claim in claims)
    size = "small sizes (`--quick`), not the papers' own" if quick else "full size"
    lines = [
        "# The papers' figures, run anew",
        "",
        *_wrapped(
            f"This page is generated. The figures were run at {size}; {holding} of {len(claims)} claims of "
            f"the papers hold in these runs, {len(claims) - holding} differ, {open_} of them with no reason "
            "recorded. The commands:"
        ),
        "",
        *(f"    {command}" for command in commands(figures, folder, quick, pictures)),
        "",
        "| figure | shows | claims that hold |",
        "| --- | --- | --- |",
        *(_summary(figure) for figure in figures),
        "",
        *_wrapped(
            f"Of a series of more than {COLUMNS} points, {COLUMNS} are shown, spread evenly from the first "
            "to the last; the JSON, CSV and Parquet files have all. A note is written with the figure's "
            "code: it offers a reason, which the run does not test."
        ),
    ]
    for figure in figures:
        lines += ["", *_section(figure, pictures)]
    return "\n".join(lines) + "\n"


def commands(
    figures: Sequence[Mapping[str, Any]], folder: str, quick: bool, pictures: str | None = None
) -> list[str]:
    """The commands that make the page again; its pictures are in a folder of the page's name."""
    small = " --quick" if quick else ""
    made = []
    for figure in figures:
        seed = figure["parameters"].get("seed", 0)
        chosen = f" --seed {seed}" if seed else ""
        made.append(f"watersmeet lab figure {figure['figure']}{small}{chosen} --out {folder}")
    drawn = " --pictures" if pictures else ""
    return [*made, f"watersmeet lab page {folder}{small}{drawn} --out docs/{pictures or 'figures'}.md"]


def _summary(figure: Mapping[str, Any]) -> str:
    name, claims = figure["figure"], figure["claims"]
    holding = sum(bool(claim["holds"]) for claim in claims)
    return f"| [{name}](#{name}) | {_cell(figure.get('title') or name)} | {holding} of {len(claims)} |"


def _section(figure: Mapping[str, Any], pictures: str | None) -> Iterator[str]:
    name = figure["figure"]
    yield f"## {name}"
    if figure.get("title"):
        yield ""
        yield from _wrapped(f"{_escape(figure['title'])}.")
    if pictures is not None:
        yield ""
        yield f"![{name}]({pictures}/{name}.svg)"
    yield ""
    for claim in figure["claims"]:
        verdict = "**holds**" if claim["holds"] else "**differs**"
        reason = claim.get("why") or ("" if claim["holds"] else "no reason recorded")
        why = f" Note: {_escape(reason)}." if reason else ""
        text = f"{verdict}: {_escape(claim['text'])}. Measured: {_escape(readable(claim['value']))}.{why}"
        yield from _wrapped(text, "- ")
    for panel, lines in _panels(figure["series"]).items():
        yield ""
        yield from _table(panel, lines)
    yield ""
    named = (f"{key} {readable(value)}" for key, value in figure["parameters"].items())
    yield from _wrapped(f"Parameters: {_escape('; '.join(named))}.")


def _panels(series: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[str, Mapping[Any, Any]]]]:
    """The lines of each panel by x, under what its axes say; a series is named `panel: line`."""
    panels: dict[str, list[tuple[str, Mapping[Any, Any]]]] = {}
    for one in series:
        panel, _, line = one["name"].partition(": ")
        labels = [one[label] for label in ("y_label", "x_label") if one.get(label)]
        title = f"{panel}: {', by '.join(labels)}" if labels else panel
        panels.setdefault(title, []).append((line or panel, dict(zip(one["x"], one["y"], strict=True))))
    return panels


def _table(panel: str, lines: Sequence[tuple[str, Mapping[Any, Any]]]) -> Iterator[str]:
    every = list(dict.fromkeys(x for _, points in lines for x in points))
    if not any(isinstance(x, str) for x in every):
        every.sort()
    shown = thinned(every, COLUMNS)
    yield f"| {_cell(panel)} | {' | '.join(_cell(readable(x)) for x in shown)} |"
    yield "| --- |" + " ---: |" * len(shown)
    for name, points in lines:
        # JSON knows no infinity: there null stands for it.
        cells = [("∞" if points[x] is None else readable(points[x])) if x in points else "" for x in shown]
        yield f"| {_cell(name)} | {' | '.join(cells)} |"


def _wrapped(text: str, mark: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", r"\*")


def _cell(text: str) -> str:
    return _escape(text).replace("|", r"\|")
