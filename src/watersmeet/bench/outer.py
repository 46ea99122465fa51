"""Outer joins: ours beside the inner join of the same streams, and beside Spark's own cascade of left joins.

Each runs in a process of its own over the same files, with the same warm-up. Ours lets go of a row without a
match when the watermark has passed the end of its lifetime, Spark some batches later. So what they answer is
compared up to an event time that all of them have left behind.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table

from watersmeet.bench.compare import FIRST_BATCHES, run_child
from watersmeet.bench.engines import IN_MEMORY, ONE_A_CORE, Batch, Outcome, run_ours, run_spark, spark_session
from watersmeet.bench.report import write_figures
from watersmeet.bench.workloads import NETMON3, SECOND_US, Workload
from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.query import ANSWER_TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from watersmeet.query import Query

OURS, INNER, SPARK = "ours", "inner", "spark"
ENGINES = (OURS, INNER, SPARK)
START_S = 1000  # of the event times
SETTLING_WINDOWS = 4  # at the end of the data that are not compared


@dataclass(frozen=True, kw_only=True)
class LeftJoins(Workload):
    """The streams of a workload on one key, each after the first joined to what is before it by LEFT JOIN."""

    @property
    def sql(self) -> str:
        first, *others = self.aliases
        select = ", ".join(f"{alias}.size AS size_{alias}" for alias in self.aliases)
        named = [f"{stream.name} [RANGE {self.window_s} SECONDS] AS" for stream in self.streams]
        joins = [
            f"LEFT JOIN {name} {alias} ON {left} = {right}"
            for name, alias, (left, right) in zip(named[1:], others, self.equalities, strict=True)
        ]
        return f"SELECT {select}, answer_time FROM {named[0]} {first} {' '.join(joins)}"

    def table(self, random: np.random.Generator, stream: int, first: int, rows: int) -> pa.Table:
        """Tuples `first` to `first + rows` of a stream; Spark takes what is at the epoch for late."""
        table = super().table(random, stream, first, rows)
        at = table.schema.get_field_index("ts")
        later = pc.add(table["ts"], pa.scalar(START_S * SECOND_US, pa.duration("us")))
        return table.set_column(at, "ts", later)


# A tuple of a meets one of b on average, and one of c.
INNER3 = replace(
    NETMON3, name="inner3", equalities=(("a.dest", "b.dest"), ("a.dest", "c.dest")), domain=20_000
)
LEFT3 = LeftJoins(
    name="left3",
    about="netmon3 with left joins",
    keys=INNER3.keys,
    equalities=INNER3.equalities,
    domain=INNER3.domain,
)


@dataclass(frozen=True, kw_only=True)
class OuterFigures:
    """Steady batches of one engine."""

    engine: str
    rows_per_s: float
    p50_ms: float
    peak_memory_bytes: int
    answers: int


def bench_outer(
    *,
    batch_rows: int,
    batches: int,
    warm_up_s: float,
    engines: Sequence[str] = ENGINES,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[OuterFigures, ...]:
    """Runs the engines one after another on the same data, and compares what the left joins answer."""
    for engine in engines:
        if engine not in ENGINES:
            raise ConfigurationError(f"there is no engine {engine}; there are {', '.join(ENGINES)}")
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-outer-"))
    try:
        report(f"writing {batches} batches of {batch_rows} rows")
        LEFT3.write(folder, batch_rows=batch_rows, batches=batches)
        figures = []
        for engine in engines:
            report(engine)
            child = [sys.executable, "-m", "watersmeet.bench.outer", engine, str(folder), str(warm_up_s)]
            figures.append(_figures(engine, folder, run_child(child, engine)))
        share = batch_rows // len(LEFT3.keys)
        end_s = START_S + share * batches / LEFT3.rows_per_s
        check_agreement(folder, engines, int((end_s - SETTLING_WINDOWS * LEFT3.window_s) * SECOND_US))
        return tuple(figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _figures(engine: str, folder: Path, peak_memory_bytes: int) -> OuterFigures:
    record = json.loads((folder / f"{engine}.json").read_text())
    batches = [Batch(**batch) for batch in record["batches"]]
    steady = batches[FIRST_BATCHES:] or batches
    times = [batch.ms for batch in steady]
    return OuterFigures(
        engine=engine,
        rows_per_s=1000 * sum(batch.rows for batch in steady) / max(1, sum(times)),
        p50_ms=statistics.median(times),
        peak_memory_bytes=peak_memory_bytes,
        answers=record["answers"],
    )


def check_agreement(folder: Path, engines: Sequence[str], before_us: int) -> None:
    """Left joins that answer differently up to an event time are not compared by speed."""
    found = {engine: _digest(folder / engine, before_us) for engine in engines if engine != INNER}
    if len(set(found.values())) > 1:
        counts = ", ".join(f"{engine} {count}" for engine, (count, _) in found.items())
        raise WatersmeetError(f"the answers of left joins differ up to {before_us} us ({counts})")


def _digest(folder: Path, before_us: int) -> tuple[int, int]:
    """How many answers are that early, and a sum of their hashes."""
    import duckdb

    files = f"{folder}/answers/*.parquet"
    sql = (
        "SELECT count(*), coalesce(sum(hash(answer)::HUGEINT), 0) "
        f"FROM (SELECT * FROM read_parquet('{files}') WHERE epoch_us(answer_time) < {before_us}) AS answer"
    )
    count, digest = duckdb.connect().execute(sql).fetchall()[0]
    return int(count), int(digest)


def left_cascade(query: Query, sources: Mapping[str, DataFrame]) -> DataFrame:
    """The left joins by Spark's own operators, with one event time kept as such after each join."""
    from pyspark.sql import functions as F  # noqa: N812

    del query  # it is LEFT3's
    (first, *others), window = LEFT3.aliases, f"INTERVAL {LEFT3.window_s} SECONDS"

    def tuples(number: int, alias: str) -> DataFrame:
        source = sources[LEFT3.streams[number].name].withWatermark("ts", "0 seconds")
        return source.selectExpr(f"dest AS dest_{alias}", f"size AS size_{alias}", f"ts AS ts_{alias}")

    joined, span = tuples(0, first), LEFT3.window_s * SECOND_US
    before: list[str] = []
    for number, alias in enumerate(others, start=1):
        own, base = f"ts_{alias}", f"ts_{first}"
        conditions = [
            f"dest_{first} = dest_{alias}",
            f"{own} BETWEEN {base} - {window} AND {base} + {window}",
        ]
        conditions += [
            f"(us_{other} IS NULL OR unix_micros({own}) - us_{other} BETWEEN -{span} AND {span})"
            for other in before
        ]
        joined = joined.join(tuples(number, alias), F.expr(" AND ".join(conditions)), "leftOuter")
        joined = joined.withColumn(f"us_{alias}", F.expr(f"unix_micros({own})")).drop(own, f"dest_{alias}")
        before.append(alias)
    latest = ", ".join([f"unix_micros(ts_{first})", *(f"us_{alias}" for alias in before)])
    sizes = [f"size_{alias}" for alias in LEFT3.aliases]
    return joined.selectExpr(*sizes, f"timestamp_micros(greatest({latest})) AS {ANSWER_TIME}")


def _run(engine: str, folder: Path, warm_up_s: float) -> Outcome:
    if engine == OURS:
        return run_ours(LEFT3, folder, warm_up_s)
    if engine == INNER:
        return run_ours(INNER3, folder, warm_up_s, name=INNER)
    session = spark_session(SPARK, folder, {**IN_MEMORY, **ONE_A_CORE})
    return run_spark(SPARK, session.spark, LEFT3, folder, warm_up_s, left_cascade)


def as_table(figures: Sequence[OuterFigures]) -> Table:
    """An engine a row, and how fast ours is beside it."""
    known = {each.engine: each for each in figures}
    table = Table(title="three streams, two left joins on one key", title_justify="left")
    table.add_column("engine")
    for column in ("rows/s", "p50 ms", "peak MB", "answers", "ours is"):
        table.add_column(column, justify="right")
    for each in figures:
        ratio = known[OURS].rows_per_s / each.rows_per_s if OURS in known and each.engine != OURS else None
        table.add_row(
            {OURS: "ours, LEFT JOIN", INNER: "ours, JOIN", SPARK: "Spark, leftOuter"}[each.engine],
            f"{each.rows_per_s:,.0f}",
            f"{each.p50_ms:,.0f}",
            f"{each.peak_memory_bytes / 1e6:,.0f}",
            f"{each.answers:,}",
            "" if ratio is None else f"{ratio:.2f}x as fast",
        )
    return table


def write(figures: Sequence[OuterFigures], folder: Path, *, batch_rows: int, batches: int) -> Path:
    """Writes outer.json."""
    return write_figures(folder / "outer.json", {"batch_rows": batch_rows, "batches": batches}, figures)


def main() -> None:
    """One engine in a process of its own: `... watersmeet.bench.outer ENGINE DIR S`."""
    engine, folder, warm_up_s = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    (folder / f"{engine}.json").write_text(json.dumps(asdict(_run(engine, folder, warm_up_s))))


if __name__ == "__main__":
    main()
