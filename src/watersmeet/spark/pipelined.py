"""A query as a pipeline: the levels of a ring of its own, as stages of one streaming query.

Each input is packed once and sent to the level where it is joined; partial results go on from level to level
as chunks. What comes out are complete combinations, as the join by shares gives them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from watersmeet.query import Query
from watersmeet.query.ring import Ring
from watersmeet.spark.ring_compile import RingCompiler, RingInput
from watersmeet.spark.ring_ship import ship_ring
from watersmeet.spark.unpack import Payload, UnpackAnswers


def pipelined(
    spark: SparkSession,
    query: Query,
    ring: Ring,
    sources: Mapping[str, DataFrame],
    files: Mapping[str, DataFrame],
    *,
    partitions: int,
    fingerprint: str,
    control: DataFrame | None,
    payload: Payload,
    schema: StructType,
) -> DataFrame:
    """The complete combinations of a query whose pipeline is this ring."""
    slots = {relation.source: relation.slot for relation in ring.relations}
    inputs = [
        RingInput(
            item.alias,
            item.stream,
            tuple(feed for feed in ring.feeds if slots[feed.name] == item.alias),
            sources[item.stream.name],
            files.get(item.stream.name),
            " AND ".join(f"({expr.sql})" for expr in item.filters) or None,
        )
        for item in query.inputs
    ]
    compiler = RingCompiler(ring, ship_ring(spark, ring), inputs, partitions, fingerprint, control)
    return compiler.answers().select("chunk").mapInArrow(UnpackAnswers(payload), schema)
