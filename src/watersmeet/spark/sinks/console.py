"""Answers of many queries on the console, as a table for each batch."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.spark.sinks.target import Batch, Target

SHOWN = 1000


@dataclass(frozen=True)
class ConsoleSink:
    """Standard output; a batch that is done again is shown again."""

    def check(self, columns: list[str]) -> None:
        """Refuses nothing."""

    def write(self, batch: Batch) -> None:
        rows = batch.answers(batch.queries)
        if rows is not None:
            rows.show(SHOWN, truncate=False)


def open_console(target: Target) -> ConsoleSink:
    """Standard output, whatever the options."""
    return ConsoleSink()
