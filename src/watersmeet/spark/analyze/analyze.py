"""Analyze: measure the statistics of a pipeline's streams from a bounded sample of their real sources.

The sample is the first rows that a source gives, `sample_rows` at most. From it come

    rate              tuples but one, over the time from the first to the last
    tuple size        mean bytes of the columns that some query reads, as these are what is sent
    distinct values   approx_count_distinct of each joining attribute, cast as the join casts it
    heavy hitters     approx_top_k: values more frequent than an even spread would make them by chance
    histogram         approx_percentile over the numbers that are no heavy hitters
    filters           the share of tuples that each local filter keeps

What a sample cannot say: values that it does not hold are not counted, so the distinct values of a short
sample are too few; and where files are not in the order of time, a sample may jump, and the rate comes out
too low. Tuples without event time are left out.

Example: a.k = b.k, where a's sample is 1000 rows a second apart and k counts from 0 to 9 over and over.
Stream a then has 1 tuple/s, and k has 10 values, all listed, with 0.1 tuples/s each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics, attribute_name
from watersmeet.query import Attribute, Pipeline, Stream
from watersmeet.query.expression import quote_name
from watersmeet.spark.analyze.attribute import JoinColumn, measure_attributes
from watersmeet.spark.analyze.byte_width import mean_bytes

DEFAULT_SAMPLE_ROWS = 100_000

Read = Callable[[Stream], DataFrame]


def analyze(
    spark: SparkSession, pipeline: Pipeline, read: Read, *, sample_rows: int = DEFAULT_SAMPLE_ROWS
) -> Statistics:
    """The statistics of every stream that a query of the pipeline reads; `read` gives a stream as a batch."""
    if sample_rows < 2:
        raise ConfigurationError(f"a sample needs at least 2 rows, not {sample_rows}")
    if not pipeline.queries:
        raise ConfigurationError("nothing to analyze: the pipeline has no query")
    streams: dict[str, StreamStatistics] = {}
    filters: dict[str, float] = {}
    read_by = {stream.name: stream for query in pipeline.every_query for stream in query.streams}
    for stream in (each for each in read_by.values() if each.answers is None):
        if stream.event_time is None:
            raise ConfigurationError(
                f"stream {stream.name} declares no event_time, so a sample does not show its rate:"
                " declare one, or write its rate_per_s into the statistics by hand"
            )
        dated = f"{quote_name(stream.event_time)} IS NOT NULL"
        sample = read(stream).limit(sample_rows).where(dated).persist()
        try:
            measured = _Sample(stream, sample, _uses(pipeline, stream))
            streams[stream.name] = measured.statistics()
            filters.update(measured.filters())
        finally:
            sample.unpersist()
    return Statistics(streams, filters=filters)


@dataclass(frozen=True)
class _Uses:
    """How the queries use one stream: its aliases, and the expressions computed from it."""

    aliases: tuple[str, ...]
    columns: tuple[str, ...]
    joins: tuple[JoinColumn, ...]
    filters: tuple[str, ...]


def _uses(pipeline: Pipeline, stream: Stream) -> _Uses:
    aliases: list[str] = []
    read: set[str] = set()
    joins: dict[str, JoinColumn] = {}
    filters: dict[str, None] = {}
    for query in pipeline.every_query:
        for item in query.inputs:
            if item.stream.view:  # its columns are none of the stream's, which it may read any of
                read.update(column.name for column in stream.columns if stream in item.stream.origins)
                continue
            if item.stream.name != stream.name:
                continue
            aliases.append(item.alias)
            read.update(query.columns_read(item.alias))
            filters.update(dict.fromkeys(expr.sql for expr in item.filters))
            for cls in query.graph.classes:
                attribute = cls.of(item.alias)
                if attribute is not None:
                    column = JoinColumn(attribute_name(attribute), as_compared(attribute, cls.type))
                    joins.setdefault(column.name, column)
    columns = tuple(column.name for column in stream.columns if column.name in read)
    return _Uses(tuple(dict.fromkeys(aliases)), columns, tuple(joins.values()), tuple(filters))


def as_compared(attribute: Attribute, type_: str | None) -> str:
    """The attribute as the join compares it."""
    text = attribute.expr.sql
    return text if type_ is None or attribute.expr.type == type_ else f"CAST({text} AS {type_})"


@dataclass(frozen=True)
class _Sample:
    """A stream's sample; expressions see its rows under every alias of the stream."""

    stream: Stream
    rows: DataFrame
    uses: _Uses

    def statistics(self) -> StreamStatistics:
        tuples, rate, tuple_bytes = self._flow()
        computed = self._aliased().selectExpr(
            *(f"{join.sql} AS {quote_name(join.name)}" for join in self.uses.joins)
        )
        attributes = measure_attributes(computed, self.uses.joins, rate / tuples) if self.uses.joins else {}
        return StreamStatistics(rate, tuple_bytes, self.stream.site, attributes)

    def filters(self) -> dict[str, float]:
        """The share of tuples each local filter keeps."""
        if not self.uses.filters:
            return {}
        shares = [f"avg(CASE WHEN {text} THEN 1.0D ELSE 0.0D END)" for text in self.uses.filters]
        row = self._aliased().selectExpr(*shares).collect()[0]
        return {text: float(share) for text, share in zip(self.uses.filters, row, strict=True)}

    def _flow(self) -> tuple[int, float, float]:
        """How many tuples the sample has, their rate, and their mean size."""
        time = quote_name(self.stream.event_time or "")
        types = {field.name: field.dataType for field in self.rows.schema.fields}
        size = " + ".join(mean_bytes(quote_name(name), types[name]) for name in self.uses.columns)
        # A difference of times is an interval, whatever kind of timestamp the column holds.
        seconds = f"timestampdiff(MICROSECOND, min({time}), max({time})) / 1e6D"
        row = self.rows.selectExpr(
            f"count({time}) AS tuples", f"{seconds} AS seconds", f"{size} AS size"
        ).collect()[0]
        return _checked(self.stream, row)

    def _aliased(self) -> DataFrame:
        return self.rows.selectExpr(*(f"struct(*) AS {quote_name(alias)}" for alias in self.uses.aliases))


def _checked(stream: Stream, row: Row) -> tuple[int, float, float]:
    tuples, seconds, size = int(row["tuples"]), row["seconds"], row["size"]
    by_hand = "write its rate_per_s into the statistics by hand"
    if tuples == 0:
        raise DataError(f"stream {stream.name}: its source has no tuples yet: give it some, or {by_hand}")
    if not seconds:
        raise DataError(
            f"stream {stream.name}: all {tuples} tuples of the sample have the same {stream.event_time},"
            f" so their rate is unknown: take a larger sample, or {by_hand}"
        )
    return tuples, (tuples - 1) / float(seconds), max(float(size), 1.0)
