"""The papers' example queries of examples/papers, with their statistics."""

from __future__ import annotations

from tests.paths import EXAMPLES
from watersmeet.plan.statistics import Statistics, read_statistics
from watersmeet.query import Query
from watersmeet.sql import parse_pipeline

PAPERS = EXAMPLES / "papers"


def example(name: str) -> tuple[Query, Statistics]:
    """One example by its name, such as `pmjoin-example-1`."""
    path = PAPERS / f"{name}.sql"
    (query,) = parse_pipeline(path.read_text(encoding="utf-8"), file=path.name).queries
    return query, read_statistics(path.with_suffix(".stats.json"))
