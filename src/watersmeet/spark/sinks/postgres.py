"""Answers into a PostgreSQL table, each once, through kill -9 and all.

Spark's executors first write a batch into a staging table beside the target. One statement then moves it over
and skips answers whose `answer_id` the target already has. A batch that is done again gives its answers the
same ids (`answer_ids.py`), so no part of it is repeated.

A missing target is created, with `answer_id` as primary key. An existing one needs the answer's columns and a
unique `answer_id`; it may have more columns. Types that PostgreSQL lacks are stored as JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.query import Sink
from watersmeet.query.expression import quote_name
from watersmeet.spark.session.packages import POSTGRES
from watersmeet.spark.sinks.answer_ids import ANSWER_ID, refuse_answer_id, with_answer_ids
from watersmeet.spark.sinks.target import Target

FORMAT = "postgres"
DRIVER = "org.postgresql.Driver"
TYPES = {
    "boolean": "BOOLEAN",
    "tinyint": "SMALLINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE PRECISION",
    "string": "TEXT",
    "binary": "BYTEA",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
JSON = "JSONB"


@dataclass(frozen=True)
class PostgresTable:
    """A table that takes the batches of one query; called by `foreachBatch`."""

    what: str  # whose table it is, such as `sink out`
    url: str
    table: str
    properties: Mapping[str, str] = field(repr=False)  # a password among them

    def __call__(self, answers: DataFrame, batch: int) -> None:
        spark = answers.sparkSession
        named = with_answer_ids(answers)
        columns = {field.name: postgres_type(field.dataType.simpleString()) for field in named.schema.fields}
        stage = self._stage(spark)
        with self._connected(spark) as run:
            run(f"DROP TABLE IF EXISTS {stage}")
            run(f"CREATE UNLOGGED TABLE {stage} ({_definitions(columns, staged=True)})")
        self._fill(_plain(named, columns), stage)
        with self._connected(spark) as run:
            run(
                f"CREATE TABLE IF NOT EXISTS {self._target} "
                f"({_definitions(columns)}, PRIMARY KEY ({_quote(ANSWER_ID)}))"
            )
            names = ", ".join(map(_quote, columns))
            values = ", ".join(
                f"{_quote(name)}::jsonb" if kind == JSON else _quote(name) for name, kind in columns.items()
            )
            run(
                f"INSERT INTO {self._target} ({names}) SELECT {values} FROM {stage} "
                f"ON CONFLICT ({_quote(ANSWER_ID)}) DO NOTHING"
            )
            run(f"DROP TABLE {stage}")

    def check(self, spark: SparkSession) -> None:
        """Refuses a database that cannot be reached, before a query starts."""
        with self._connected(spark) as run:
            run("SELECT 1")

    @property
    def _target(self) -> str:
        return ".".join(_quote(part) for part in self.table.split("."))

    def _stage(self, spark: SparkSession) -> str:
        """The table beside the target, one for each query: two queries may share a target."""
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        name = hashlib.sha256(f"{query} {self.table}".encode()).hexdigest()[:16]
        return ".".join([*map(_quote, self.table.split(".")[:-1]), _quote(f"watersmeet_stage_{name}")])

    def _fill(self, rows: DataFrame, stage: str) -> None:
        writer = rows.write.format("jdbc").mode("append").options(**self.properties)
        writer.options(url=self.url, dbtable=stage, driver=DRIVER, isolationLevel="READ_COMMITTED").save()

    @contextlib.contextmanager
    def _connected(self, spark: SparkSession) -> Iterator[Any]:
        """Runs statements in one transaction on the driver."""
        jvm: Any = spark.sparkContext._jvm
        properties = jvm.java.util.Properties()
        for key, value in self.properties.items():
            properties.setProperty(key, value)
        try:
            connection = getattr(jvm, DRIVER)().connect(self.url, properties)
        except TypeError:
            raise ConfigurationError(
                f"{self.what}: PostgreSQL's driver is missing: --conf spark.jars.packages={POSTGRES}"
            ) from None
        except Py4JJavaError as error:
            raise self._refusal(error) from None
        if connection is None:
            raise ConfigurationError(
                f"{self.what}: its url is not one of PostgreSQL: write 'jdbc:postgresql://host:5432/database'"
            )
        try:
            connection.setAutoCommit(False)
            statement = connection.createStatement()
            yield statement.execute
            connection.commit()
        except Py4JJavaError as error:
            raise self._refusal(error) from None
        finally:
            connection.close()

    def _refusal(self, error: Py4JJavaError) -> DataError:
        reason = str(error.java_exception.getMessage()).split("\n")[0]
        return DataError(f"{self.what} (table {self.table}): PostgreSQL says: {reason}")


def write_postgres(rows: DataFrame, target: Target) -> DataStreamWriter:
    """Answers into the table that the sink names; refuses a database that cannot be reached."""
    table = postgres_table(target.sink)
    if not target.ready:
        refuse_answer_id(target.what, rows.columns)
    table.check(rows.sparkSession)
    return rows.writeStream.foreachBatch(table)


def postgres_table(sink: Sink) -> PostgresTable:
    """The table a sink names; user and password may also come from PGUSER and PGPASSWORD."""
    what = f"sink {sink.name}"
    options = {key.lower(): value for key, value in sink.connector.options}
    for name, example in (("url", "jdbc:postgresql://host:5432/database"), ("table", "answers")):
        if not options.get(name):
            raise ConfigurationError(f"{what} (format {FORMAT}): add {name} = '{example}'")
    properties = {key: value for key, value in sink.connector.options if key.lower() not in ("url", "table")}
    for name, variable in (("user", "PGUSER"), ("password", "PGPASSWORD")):
        if name not in options and variable in os.environ:
            properties[name] = os.environ[variable]
    return PostgresTable(what, options["url"], options["table"], properties)


def postgres_type(spark_type: str) -> str:
    """The type of a column in PostgreSQL.

    >>> postgres_type("decimal(10,2)"), postgres_type("array<int>")
    ('NUMERIC(10,2)', 'JSONB')
    """
    if spark_type.startswith("decimal"):
        return spark_type.replace("decimal", "NUMERIC")
    if spark_type.startswith(("varchar", "char")):
        return TYPES["string"]
    return TYPES.get(spark_type, JSON)


def _plain(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """The rows with nested columns as JSON texts."""
    return rows.select(
        *(
            F.to_json(F.col(quote_name(name))).alias(name) if kind == JSON else F.col(quote_name(name))
            for name, kind in columns.items()
        )
    )


def _definitions(columns: Mapping[str, str], *, staged: bool = False) -> str:
    kinds = {name: TYPES["string"] if staged and kind == JSON else kind for name, kind in columns.items()}
    return ", ".join(f"{_quote(name)} {kind}" for name, kind in kinds.items())


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
