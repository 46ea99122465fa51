"""Which sinks take answers with other columns beside those they have."""

from __future__ import annotations

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector, Sink
from watersmeet.spark.jobs.resume.sink_columns import Columns, refuse_half_a_batch, take_columns

OLD: Columns = (("k", "bigint"), ("v", "string"))
ORDERED: Columns = (("v", "string"), ("k", "bigint"))
FEWER: Columns = (("k", "bigint"),)
MORE: Columns = (*OLD, ("w", "int"))


def take(kind: str, new: Columns) -> str:
    return take_columns(Sink("out", Connector(kind)), OLD, new)


@pytest.mark.parametrize(
    ("kind", "new"),
    [
        *((kind, OLD) for kind in ("parquet", "csv", "memory", "postgres", "kafka", "delta", "answers")),
        *((kind, ORDERED) for kind in ("parquet", "orc", "json", "postgres", "kafka", "console")),
        *((kind, new) for kind in ("json", "kafka", "console") for new in (FEWER, MORE)),
    ],
)
def test_columns_that_a_sink_takes_as_they_are(kind: str, new: Columns) -> None:
    assert take(kind, new) == ""


def test_what_readers_should_know_is_said() -> None:
    assert "mergeSchema" in take("parquet", FEWER)
    assert "mergeSchema" in take("orc", MORE)
    assert take("postgres", FEWER) == "sink out: v will be NULL in new rows"


@pytest.mark.parametrize(
    ("kind", "new", "why"),
    [
        *((kind, (("k", "int"),), "k was bigint, and is int") for kind in ("parquet", "json", "postgres")),
        *((kind, (("K", "bigint"),), "in other letters") for kind in ("parquet", "json", "postgres")),
        *((kind, ORDERED, "the same columns") for kind in ("csv", "text", "memory", "delta", "answers")),
        ("postgres", MORE, "has no column w"),
    ],
)
def test_columns_that_a_sink_cannot_take_are_refused(kind: str, new: Columns, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        take(kind, new)


def test_half_a_batch_stays_only_in_sinks_that_undo_it() -> None:
    for kind in ("parquet", "postgres", "memory", "answers", "console"):
        refuse_half_a_batch(Sink("out", Connector(kind)))
    refuse_half_a_batch(None)
    for kind in ("kafka", "delta"):
        with pytest.raises(ConfigurationError, match="End the batch first"):
            refuse_half_a_batch(Sink("out", Connector(kind)))
