"""Arguments that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_MASTER = "local[*]"

PipelineFile = Annotated[Path, typer.Argument(help="The pipeline file.", metavar="FILE.sql")]
Master = Annotated[str, typer.Option(help="The Spark master.")]
Conf = Annotated[
    list[str] | None, typer.Option(help="A Spark setting; may be repeated.", metavar="KEY=VALUE")
]
PlanName = Annotated[
    str | None,
    typer.Option(
        help="A plan across sites, as explain --sites names it [default: the advised one].",
        metavar="NAME",
    ),
]
StatisticsFile = Annotated[
    Path | None,
    typer.Option(help="Statistics to plan by [default: FILE.stats.json if there].", metavar="S.json"),
]
