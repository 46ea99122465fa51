"""The answers of a shared dataflow as a stream: blobs from the last level, and what makes rows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from watersmeet.kernel import StateLimit
from watersmeet.query import Query, Stream
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.multiquery.answers import AnswerDecoder, column_types
from watersmeet.spark.multiquery.compile import DataflowCompiler, dataflow_fingerprint
from watersmeet.spark.multiquery.levels import dataflow_inputs, plan_levels
from watersmeet.spark.multiquery.ship import ship_dataflow
from watersmeet.spark.session.block_size import session_tuning
from watersmeet.spark.sources.read_sources import Sources
from watersmeet.spark.storage.run_starts import begin_run


@dataclass(frozen=True)
class AnswerStream:
    """Streaming blobs, (source, rows, chunk), and their decoder."""

    blobs: DataFrame
    decoder: AnswerDecoder


def stream_answers(
    spark: SparkSession,
    dataflow: SharedDataflow,
    *,
    queries: Mapping[int, Query],
    streams: Sequence[Stream],
    sources: Sources,
    partitions: int,
    checkpoint: str | None = None,
    limit: StateLimit | None = None,
) -> AnswerStream:
    """The answers of all `queries`, by number, of a dataflow that reads these sources.

    `checkpoint` is the folder of its checkpoint, where it is known; `limit` is of the memory of its state.
    """
    ship = ship_dataflow(spark, dataflow)
    tasks = plan_levels(
        dataflow,
        ship,
        dataflow_inputs(dataflow, streams),
        partitions=partitions,
        fingerprint=dataflow_fingerprint(dataflow, streams, partitions),
        direct={name: each.root for name, each in sources.files.items()},
        starts=begin_run(spark, streams, checkpoint),
        limit=limit,
        parallelism=spark.sparkContext.defaultParallelism,
        tuning=session_tuning(spark),
    )
    blobs = DataflowCompiler(tasks, sources.tuples, sources.files).answers()
    return AnswerStream(blobs, AnswerDecoder(ship, queries, column_types(streams, sources.tuples)))
