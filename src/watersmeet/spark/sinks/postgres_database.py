"""A PostgreSQL database as the driver and the executors reach it: transactions, and rows written in bulk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.spark.session.packages import POSTGRES

DRIVER = "org.postgresql.Driver"


@dataclass(frozen=True)
class Transaction:
    """Statements that take effect together, or not at all."""

    statement: Any  # of JDBC

    def run(self, sql: str) -> None:
        self.statement.execute(sql)

    def ask(self, sql: str) -> list[str]:
        """The first column of a query's rows, as texts."""
        rows, found = self.statement.executeQuery(sql), []
        while rows.next():
            found.append(str(rows.getString(1)))
        return found


@dataclass(frozen=True)
class Database:
    """Where a sink's table is."""

    what: str  # whose table it is, such as `sink out`
    url: str
    table: str
    properties: Mapping[str, str] = field(repr=False)  # a password among them

    def fill(self, rows: DataFrame, table: str) -> None:
        """Appends rows to a table, from the executors, each partition in a transaction of its own."""
        writer = rows.write.format("jdbc").mode("append").options(**self.properties)
        writer.options(url=self.url, dbtable=table, driver=DRIVER, isolationLevel="READ_COMMITTED").save()

    @contextlib.contextmanager
    def transaction(self, spark: SparkSession) -> Iterator[Transaction]:
        """Runs statements on the driver; they are committed at the end, unless one of them fails."""
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
            yield Transaction(connection.createStatement())
            connection.commit()
        except Py4JJavaError as error:
            raise self._refusal(error) from None
        finally:
            connection.close()

    def _refusal(self, error: Py4JJavaError) -> DataError:
        reason = str(error.java_exception.getMessage()).split("\n")[0]
        return DataError(f"{self.what} (table {self.table}): PostgreSQL says: {reason}")


def quote(name: str) -> str:
    """A name as SQL takes it, whatever its characters."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL takes it."""
    return "'" + text.replace("'", "''") + "'"
