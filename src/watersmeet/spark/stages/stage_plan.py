"""All that the stages of a join must know; it travels to the workers with every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from watersmeet.kernel import BucketPlan, Grid, describe_policies
from watersmeet.plan.predecessor import Predecessor
from watersmeet.spark.exchange.file_input import FileInput
from watersmeet.spark.exchange.hot_keys import HotKeys
from watersmeet.spark.sources.parquet.rows import FileColumn
from watersmeet.spark.stages.answers import AnswerBlobs, AnswerOutput
from watersmeet.spark.tuning import DEFAULT, Tuning


@dataclass(frozen=True)
class SentOn:
    """Where the results of a stage go: to a later stage, by the value of one of their columns."""

    stage: int  # that they are of
    column: str
    keeps_null: bool  # whether those without a value count: a join may answer them for want of a match
    buckets: int


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """What one stage of a join must know."""

    name: str
    bucket: BucketPlan
    streams: tuple[str, ...]  # the stream of each reading, those of the inputs first, in order
    grid: Grid
    labels: tuple[int, ...]
    fingerprint: str
    late: Mapping[str, tuple[FileColumn, ...]] = field(default_factory=dict)  # what may come after the join
    cached_buckets: int | None = None  # of this stage a worker may keep between batches; None: any number
    hot: HotKeys | None = None
    output: AnswerOutput = field(default_factory=AnswerBlobs)
    files: Mapping[int, FileInput] = field(default_factory=dict)  # inputs whose files the stage reads
    starts: tuple[int, ...] = ()  # of the query's runs, as far as they are known, in microseconds
    inputs: frozenset[int] | None = None  # in a pipeline, those joined here, by number; None: all
    takes: frozenset[int] = frozenset()  # in a pipeline, the stages whose results are joined here
    predecessor: Predecessor | None = None  # where the query has changed
    tuning: Tuning = DEFAULT

    def joins(self, number: int) -> bool:
        """Whether an input, by its number, is joined in this stage."""
        return self.inputs is None or number in self.inputs

    @property
    def is_limited(self) -> bool:
        """Whether memory is short."""
        return self.bucket.limit is not None

    @property
    def query_set(self) -> str | None:
        return None

    @property
    def kept_as(self) -> str:
        """A bucket knows its limit, and how late streams may be: it is made anew when these are others."""
        limit, name = self.bucket.limit, f"{self.name}, {describe_policies(self.bucket.lateness)}"
        return name if limit is None else f"{name}, {limit.shed.value} within {limit.nbytes}"
