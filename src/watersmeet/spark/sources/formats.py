"""Every source format that needs more than Spark's own reader with the declared columns.

To add one: a class with the methods of `SourceFormat` in a file of its own, and a line here.
"""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.query import Connector
from watersmeet.spark import generator
from watersmeet.spark.sources.generator_format import GeneratorFormat
from watersmeet.spark.sources.kafka import KafkaFormat
from watersmeet.spark.sources.parquet.schema import check_parquet
from watersmeet.spark.sources.source_format import SourceFormat, SparkFormat
from watersmeet.spark.sources.text_files import check_csv, check_json

# A record that does not fit its declaration stops the query, unless 'option.mode' says otherwise.
_STRICT = {"mode": "FAILFAST"}
_PLAIN = SparkFormat()

FORMATS: Mapping[str, SourceFormat] = {
    "kafka": KafkaFormat(),
    generator.FORMAT: GeneratorFormat(),
    # Spark reads a column that a file lacks as NULL, so the files are looked into.
    "parquet": SparkFormat(check_files=check_parquet),
    # Spark infers no times from JSON and no types from CSV unless an option asks for it. It takes the whole
    # numbers of a CSV file for as narrow as the first ones are; later ones may be larger.
    "json": SparkFormat(defaults=_STRICT, inference={"inferTimestamp": "true"}, check_files=check_json),
    "csv": SparkFormat(
        defaults=_STRICT,
        inference={"inferSchema": "true"},
        widened={"int": "bigint"},
        check_files=check_csv,
    ),
    "xml": SparkFormat(defaults=_STRICT),
    "iceberg": SparkFormat(rows_option="streaming-max-rows-per-micro-batch"),
}


def format_of(source: Connector) -> SourceFormat:
    """How to open a source of this format."""
    return FORMATS.get(source.format.lower(), _PLAIN)
