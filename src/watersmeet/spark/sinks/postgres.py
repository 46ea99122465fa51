"""Answers into a PostgreSQL table, each once, whichever side is killed at whichever statement.

1. A first transaction reads in `watersmeet_batches` for which queries the batch is there already, removes the
   staging tables of earlier tries, and creates one for this try, under a name that no other try uses.
2. Spark's executors fill the staging table. It is logged, as any table, so a crash of the server empties it
   only of what was not committed.
3. A second transaction compares the number of staged answers with those that Spark wrote, moves them into the
   target, marks the batch in `watersmeet_batches`, and drops the staging table.

A batch that is done again finds its mark, or no trace of its first try; one that Spark has planned anew finds
the mark of another plan, and is refused (`batch_plans.py`). As a second line of defence the target's
`answer_id` is unique, and a batch that is done again gives its answers the same ids (`answer_ids.py`). Of two
runs on one checkpoint the second to move a batch fails, because the mark is unique.

A missing target is created, with `answer_id` as primary key. An existing one needs the answer's columns and a
unique `answer_id`; it may have more columns. Types that PostgreSQL lacks are stored as JSON.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.query import Sink
from watersmeet.query.expression import quote_name
from watersmeet.spark.sinks.answer_ids import ANSWER_ID, refuse_answer_id, with_answer_ids
from watersmeet.spark.sinks.file_commit import refuse_put_back
from watersmeet.spark.sinks.postgres_database import Database, Transaction, literal, quote
from watersmeet.spark.sinks.row_count import RowCount, counted
from watersmeet.spark.sinks.target import Batch, Target

FORMAT = "postgres"
MARKS = "watersmeet_batches"
STAGE = "watersmeet_stage"
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
_ID = quote(ANSWER_ID)


@dataclass(frozen=True)
class PostgresSink:
    """A table that takes the batches of one streaming query; other queries may fill it too."""

    spark: SparkSession
    database: Database
    ready: bool

    def check(self, columns: list[str]) -> None:
        """Refuses a database that cannot be reached."""
        if not self.ready:
            refuse_answer_id(self.database.what, columns)
        with self.database.transaction(self.spark) as now:
            now.run("SELECT 1")

    def write(self, batch: Batch) -> None:
        """Adds the answers of the queries that the table has none of in this batch."""
        due, old_stages = self._due(batch)
        rows = batch.answers(due) if due else None
        if rows is None:
            return
        named = with_answer_ids(rows, batch.origin)
        columns = {field.name: postgres_type(field.dataType.simpleString()) for field in named.schema.fields}
        stage = self._beside(f"{self._stages(batch)}{secrets.token_hex(8)}")
        with self.database.transaction(self.spark) as now:
            for old in old_stages:
                now.run(f"DROP TABLE IF EXISTS {self._beside(old)}")
            _create_alone(now, f"{self._target} ({_definitions(columns)}, PRIMARY KEY ({_ID}))")
            now.run(f"CREATE TABLE {stage} ({_definitions(columns, staged=True)})")
        watched, count = counted(_plain(named, columns))
        self.database.fill(watched, stage)
        with self.database.transaction(self.spark) as now:
            self._check_stage(now, stage, count)
            self._mark(now, batch, due)
            names = ", ".join(map(quote, columns))
            values = ", ".join(
                f"{quote(name)}::jsonb" if kind == JSON else quote(name) for name, kind in columns.items()
            )
            now.run(
                f"INSERT INTO {self._target} ({names}) SELECT {values} FROM {stage} "
                f"ON CONFLICT ({_ID}) DO NOTHING"
            )
            now.run(f"DROP TABLE {stage}")

    def _due(self, batch: Batch) -> tuple[frozenset[str], list[str]]:
        """The queries whose answers the table has not got yet, and what earlier tries have left behind."""
        with self.database.transaction(self.spark) as now:
            _create_alone(
                now,
                f"{self._marks} (writer TEXT, target TEXT, batch BIGINT, query TEXT, "
                "plan TEXT, PRIMARY KEY (writer, target, batch, query))",
            )
            newest = now.ask(f"SELECT max(batch) FROM {self._marks} WHERE {self._own(batch)}")
            if newest[0] != "None" and int(newest[0]) > batch.number:
                raise self._refuse_put_back(batch, f"batch {newest[0]}")
            this = f"{self._own(batch)} AND batch = {batch.number}"
            others = now.ask(
                f"SELECT query FROM {self._marks} WHERE {this} AND plan <> {literal(batch.plan)}"
            )
            if batch.plan and others:
                raise self._refuse_put_back(batch, f"another batch {batch.number}")
            done = now.ask(f"SELECT query FROM {self._marks} WHERE {this}")
            stages = now.ask(
                f"SELECT tablename FROM pg_tables WHERE schemaname = {self._schema} "
                f"AND starts_with(tablename, {literal(self._stages(batch))})"
            )
        return batch.queries.difference(done), stages

    def _refuse_put_back(self, batch: Batch, held: str) -> DataError:
        where = f"table {self.database.table} of {self.database.what} holds {held}"
        return refuse_put_back(batch.number, where)

    def _check_stage(self, now: Transaction, stage: str, count: RowCount) -> None:
        wanted = count()
        found = int(now.ask(f"SELECT count(DISTINCT {_ID}) FROM {stage}")[0])
        if wanted is not None and found < wanted:
            raise DataError(
                f"{self.database.what} (table {self.database.table}): {found} of {wanted} answers of a batch "
                "are in its staging table, so nothing is moved. Resume: the batch is done again"
            )

    def _mark(self, now: Transaction, batch: Batch, due: frozenset[str]) -> None:
        now.run(f"DELETE FROM {self._marks} WHERE {self._own(batch)} AND batch < {batch.number}")
        own = f"{literal(batch.origin.writer)}, {literal(self.database.table)}, {batch.number}"
        rows = ", ".join(f"({own}, {literal(query)}, {literal(batch.plan)})" for query in sorted(due))
        marked = now.ask(
            f"INSERT INTO {self._marks} (writer, target, batch, query, plan) VALUES {rows} "
            "ON CONFLICT DO NOTHING RETURNING query"
        )
        if len(marked) < len(due):
            raise DataError(
                f"{self.database.what}: batch {batch.number} has been written by another run of the same "
                "checkpoint meanwhile: nothing is added twice. Let one run use a checkpoint at a time, then "
                "resume"
            )

    def _own(self, batch: Batch) -> str:
        return f"writer = {literal(batch.origin.writer)} AND target = {literal(self.database.table)}"

    def _stages(self, batch: Batch) -> str:
        """What the names of this writer's staging tables begin with."""
        table = hashlib.sha256(self.database.table.encode()).hexdigest()[:8]
        return f"{STAGE}_{batch.origin.writer}_{table}_"

    @property
    def _target(self) -> str:
        return ".".join(map(quote, self.database.table.split(".")))

    @property
    def _marks(self) -> str:
        return self._beside(MARKS)

    def _beside(self, name: str) -> str:
        """A table in the schema of the target."""
        return ".".join(map(quote, [*self.database.table.split(".")[:-1], name]))

    @property
    def _schema(self) -> str:
        schema = self.database.table.split(".")[:-1]
        return literal(schema[-1]) if schema else "current_schema()"


def open_postgres(target: Target) -> PostgresSink:
    """The table that a sink names; user and password may also come from PGUSER and PGPASSWORD."""
    return PostgresSink(target.spark, _database(target.sink), target.ready)


def _database(sink: Sink) -> Database:
    what = f"sink {sink.name}"
    written = sink.connector.filled_in(what)
    options = {key.lower(): value for key, value in written.items()}
    for name, example in (("url", "jdbc:postgresql://host:5432/database"), ("table", "answers")):
        if not options.get(name):
            raise ConfigurationError(f"{what} (format {FORMAT}): add {name} = '{example}'")
    properties = {key: value for key, value in written.items() if key.lower() not in ("url", "table")}
    for name, variable in (("user", "PGUSER"), ("password", "PGPASSWORD")):
        if name not in options and variable in os.environ:
            properties[name] = os.environ[variable]
    return Database(what, options["url"], options["table"], properties)


def _create_alone(now: Transaction, table: str) -> None:
    """Creates a table unless there is one; two transactions that do so at once would both fail or wait."""
    now.run(f"SELECT pg_advisory_xact_lock(hashtext({literal(MARKS)}))")
    now.run(f"CREATE TABLE IF NOT EXISTS {table}")


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
    return ", ".join(f"{quote(name)} {kind}" for name, kind in kinds.items())
