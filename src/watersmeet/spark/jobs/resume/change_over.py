"""A query that has changed since its last run: whether it may go on with the state that is there.

It may if the state serves it, and its sink can take its answers. Where the kept tuples become another set,
that has to be asked for; and where answers would be missing, that has to be accepted. All is decided before
anything is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.plan.state_format import StateIdentity
from watersmeet.plan.take_over import Gap, Progress, TakeOver
from watersmeet.query import ANSWER_TIME, Sink
from watersmeet.spark.jobs.resume.sink_columns import Columns, refuse_half_a_batch, take_columns

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OTHERWISE = "Or give the changed query a new checkpoint directory, or restore the old query."


@dataclass(frozen=True)
class ChangeOver:
    """What a query that may have changed is run with; `said` is what there is to say of it."""

    spark: SparkSession
    sink: Sink | None
    evolve: bool
    accept_gap: bool
    progress: Callable[[], Progress]  # of the query that left the state
    said: list[str] = field(default_factory=list)

    def decide(
        self, found: TakeOver, old: StateIdentity, sunk: Columns, *, since: int, is_under_way: bool
    ) -> tuple[Progress, Columns]:
        """Lets a change go through, or refuses it; `sunk` are columns the sink has of still older queries.

        Returns how far the old query had come, and all columns that the sink may hold from now on.
        """
        if is_under_way:
            refuse_half_a_batch(self.sink)
        before = {**dict(sunk), **dict(answer_types(self.spark, old))}
        now = answer_types(self.spark, found.plan.identity)
        notice = take_columns(self.sink, tuple(before.items()), now)
        is_needed = bool(found.missing) or found.has_new_window
        progress = self.progress() if is_needed and since > 0 else Progress()
        lines = "".join(f"\n  {line}" for line in found.differences)
        if found.has_new_window and progress.has_hot_values:
            raise ConfigurationError(
                f"the query has changed since its last run:{lines}\n"
                "  Tuples of frequent values are spread over buckets for as long as the old windows say. Run "
                "the old query with --hot-keys off until they have left their windows, then change it.\n"
                f"  {_OTHERWISE}"
            )
        gaps = found.gaps(progress)
        if (found.on_request and not self.evolve) or (gaps and not self.accept_gap):
            raise ConfigurationError(self._refusal(lines, found, gaps))
        what = (
            "the kept state serves it" if not gaps else "\n  ".join(["it goes on", *map(describe_gap, gaps)])
        )
        self.said.append(f"what changed:{lines}\n  from batch {since} on; {what}")
        self.said.extend([notice] if notice else [])
        return progress, tuple({**before, **dict(now)}.items())

    def _refusal(self, lines: str, found: TakeOver, gaps: tuple[Gap, ...]) -> str:
        flags = "--evolve --accept-gap" if gaps else "--evolve"
        told = "".join(f"  {describe_gap(gap)}\n" for gap in gaps)
        return (
            f"the query has changed since its last run:{lines}\n{told}"
            f"  To go on with the state that is kept ({'; '.join(found.on_request)}), say {flags}.\n"
            f"  {_OTHERWISE}"
        )


def describe_gap(gap: Gap) -> str:
    """Which answers may be missing."""
    if gap.is_endless:
        return (
            f"for ever, answers with tuples of {gap.alias} from before the change may be missing: {gap.why}"
        )
    until = _EPOCH + timedelta(microseconds=gap.until_us)
    return (
        f"until {until:%Y-%m-%d %H:%M:%S.%f} UTC in event time, answers with tuples of {gap.alias} from "
        f"before the change may be missing: {gap.why}"
    )


def answer_types(spark: SparkSession, identity: StateIdentity) -> Columns:
    """The columns of a query's answers as Spark has them."""
    fields = [f"`{ANSWER_TIME}` timestamp"]
    for item in identity.state["inputs"]:
        columns = ", ".join(f"{_quoted(name)}: {type_}" for name, type_ in item["columns"])
        fields += [f"{_quoted(item['alias'])} struct<{columns}>"] if columns else []
    nothing = spark.createDataFrame([], ", ".join(fields))
    outputs = [f"{sql} AS {_quoted(name)}" for name, sql in identity.query["answers"]["select"]]
    schema = nothing.selectExpr(*outputs).schema
    return tuple((each.name, each.dataType.simpleString()) for each in schema.fields)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
