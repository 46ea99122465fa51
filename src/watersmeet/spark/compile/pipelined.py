"""A query as a pipeline: the levels of a dataflow of its own, as stages of one streaming query.

Each input is packed once and sent to the level where it is joined; partial results go on from level to level
as chunks. What comes out are complete combinations, as the join by shares gives them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from watersmeet.query import Query
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.exchange.unpack import Payload, UnpackAnswers
from watersmeet.spark.multiquery.compile import DataflowCompiler, DataflowInput
from watersmeet.spark.multiquery.ship import ship_dataflow


def pipelined(
    spark: SparkSession,
    query: Query,
    dataflow: SharedDataflow,
    sources: Mapping[str, DataFrame],
    files: Mapping[str, DataFrame],
    *,
    partitions: int,
    fingerprint: str,
    control: DataFrame | None,
    payload: Payload,
    schema: StructType,
) -> DataFrame:
    """The complete combinations of a query whose pipeline is this dataflow."""
    slots = {relation.source: relation.slot for relation in dataflow.relations}
    inputs = [
        DataflowInput(
            name=item.alias,
            stream=item.stream,
            feeds=tuple(feed for feed in dataflow.feeds if slots[feed.name] == item.alias),
            frame=sources[item.stream.name],
            files=files.get(item.stream.name),
            keep=" AND ".join(f"({expr.sql})" for expr in item.filters) or None,
        )
        for item in query.inputs
    ]
    compiler = DataflowCompiler(
        dataflow=dataflow,
        ship=ship_dataflow(spark, dataflow),
        inputs=inputs,
        partitions=partitions,
        fingerprint=fingerprint,
        control=control,
    )
    return compiler.answers().select("chunk").mapInArrow(UnpackAnswers(payload), schema)
