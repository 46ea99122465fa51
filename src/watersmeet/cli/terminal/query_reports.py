"""Reports on the queries of a file, one after another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

import typer


class Report(Protocol):
    """Something to read, or for a program to read."""

    def pretty(self) -> str: ...

    def to_json(self) -> dict[str, Any]: ...


def show_reports(reports: Mapping[str, Report], *, as_json: bool) -> None:
    """The report of the one query there is; with several, each under its name, or all in a JSON list."""
    single = next(iter(reports.values())) if len(reports) == 1 else None
    if as_json:
        several = [{"query": name, **report.to_json()} for name, report in reports.items()]
        document = single.to_json() if single else several
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
    elif single:
        typer.echo(single.pretty())
    else:
        typer.echo("\n\n".join(f"{name}\n\n{report.pretty()}" for name, report in reports.items()))
