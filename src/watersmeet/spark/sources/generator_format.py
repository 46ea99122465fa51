"""Made-up tuples as a source format of pipeline files."""

from __future__ import annotations

from pyspark.sql import DataFrame

from watersmeet.query import Column
from watersmeet.spark.generator.data_source import register
from watersmeet.spark.generator.generator import DEFAULT_COLUMNS, parse_options
from watersmeet.spark.sources.source_format import Opening, SparkFormat


class GeneratorFormat(SparkFormat):
    """Our own format, registered with Spark when a stream first asks for it."""

    def __init__(self) -> None:
        super().__init__(rows_option="rows_per_batch")

    def infer_columns(self, opening: Opening) -> tuple[Column, ...]:
        return DEFAULT_COLUMNS

    def read(self, opening: Opening, *, streaming: bool) -> DataFrame:
        # Options are checked here too: a refusal from within Spark would come wrapped.
        parse_options(opening.options, opening.stream.columns)
        register(opening.spark)
        return super().read(opening, streaming=streaming)
