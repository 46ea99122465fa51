"""Queries of a pipeline file that read the answers of others: which do, and through which logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.kernel.outer.tree_layout import delay_us
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.routing.routing import Native
from watersmeet.query import Connector, Query, Sink
from watersmeet.spark.chains.answer_log import AnswerLog
from watersmeet.spark.chains.log_sink import AnswerLogSink
from watersmeet.spark.chains.log_source import read_answers
from watersmeet.spark.compile.lay_out_tree import lay_out_tree
from watersmeet.spark.jobs.pipeline_file import query_folder
from watersmeet.spark.sources.read_sources import Sources
from watersmeet.spark.storage.paths import local_path

LOG = "answers"


@dataclass(frozen=True)
class Chains:
    """The queries of a file by name, one of which may read the answers of another, and their checkpoint."""

    spark: SparkSession
    root: str
    queries: Mapping[str, Query]

    def reads(self, name: str) -> tuple[str, ...]:
        """The queries whose answers a query reads itself."""
        return tuple(stream.name for stream in self.queries[name].streams if stream.answers is not None)

    def readers(self, name: str) -> tuple[str, ...]:
        """The queries that read the answers of a query themselves; none if these go into a sink."""
        return tuple(other for other in self.queries if name in self.reads(other))

    def into(self, sources: Sources, name: str) -> Sources:
        """The sources of a query, with those that are the answers of others."""
        streams = [stream for stream in self.queries[name].streams if stream.answers is not None]
        logs = {stream.name: self._opened(stream.name) for stream in streams}
        found = {stream.name: read_answers(self.spark, stream, logs[stream.name], name) for stream in streams}
        return replace(sources, tuples={**sources.tuples, **found})

    def log_of(self, name: str) -> AnswerLogSink | None:
        """What the answers of a query go into where others read them; None if no other does."""
        if not (readers := self.readers(name)):
            return None
        return AnswerLogSink(
            spark=self.spark,
            log=self._opened(name),
            delay_us=answer_delay_us(self.queries[name]),
            readers=readers,
        )

    def sink(self, name: str) -> Sink | None:
        """How the log of a query is called among the sinks."""
        return Sink(name, Connector(LOG)) if self.readers(name) else None

    def check(self, name: str, plan: PhysicalPlan) -> None:
        """Refuses a plan that does not say how far it has come, or cannot hear of it."""
        if isinstance(plan.routing, Native) and (self.reads(name) or self.readers(name)):
            raise ConfigurationError(
                f"query {name} is part of a chain, and Spark's own joins do not say how far they have come: "
                "choose another routing than native"
            )

    def _opened(self, name: str) -> AnswerLog:
        folder = local_path(query_folder(self.root, name))
        if folder is None:
            raise ConfigurationError(
                f"stream {name} is the answers of a query, which are kept in the checkpoint, and {self.root} "
                "is not on a disk that all workers see. Choose another one with --checkpoint"
            )
        log = AnswerLog(folder / LOG)
        try:
            log.open()
        except OSError as error:
            raise ConfigurationError(f"{log.root} cannot be written: {error.strerror or error}") from None
        return log


def answer_delay_us(query: Query) -> int:
    """How long after its own time an answer may come out, by the clock of the watermark."""
    if query.tree is None:
        return 0
    delay = delay_us(lay_out_tree(query).tree.root)
    if delay is None:
        raise ConfigurationError(
            "a stream of answers needs to know when a row without a match leaves at the latest: give every "
            "input that may be kept without one a RANGE or TUMBLE window"
        )
    return delay
