"""The demonstration: three routers, live, and the answers compared with what the same packets give elsewhere.

The packets are made up by the built-in generator, so the very tuples that were joined can be made again, and
joined by DuckDB where it is installed; else by the oracle, for a sample of the destinations. A destination's
answers follow from its own packets alone, so a sample is checked exactly too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from watersmeet.cli.terminal.display import count, open_display
from watersmeet.oracle import oracle
from watersmeet.plan.explain.physical import explain_plan
from watersmeet.query import Pipeline
from watersmeet.session import Session, follow
from watersmeet.spark.jobs.job import Job
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.sources.generator import generate, parse_options

WINDOW_MS = 250
SAMPLE_ROWS = 20_000  # of each stream, for the oracle
TOP = 10

STREAM = """\
CREATE STREAM {name} (dest STRING, src STRING, size BIGINT, ts TIMESTAMP)
WITH (format = 'watersmeet-generator', stream = '{name}', seed = '{seed}',
      rate = '{rate}', rows = '{rows}', rows_per_batch = '{at_most}',
      keys = '{keys}', skew = '0.5',
      event_time = 'ts', lateness = '200 ms', disorder = '200 ms');
"""

QUERY = f"""
CREATE SINK common WITH (format = 'parquet', path = 'out');

INSERT INTO common
SELECT a.dest, a.size AS size_1, b.size AS size_2, c.size AS size_3, answer_time
FROM r1 [RANGE {WINDOW_MS} MS] AS a, r2 [RANGE {WINDOW_MS} MS] AS b, r3 [RANGE {WINDOW_MS} MS] AS c
WHERE a.dest = b.dest AND b.dest = c.dest;
"""


@dataclass(frozen=True)
class Demo:
    """What to show: `rate` packets a second at each router, for so long."""

    seconds: int = 20
    rate: int = 20_000
    seed: int = 1

    @property
    def rows(self) -> int:
        """The packets of one router."""
        return self.seconds * self.rate

    def pipeline(self) -> str:
        """The pipeline file.

        Destinations grow in number with the rate, so that answers do as packets do. A batch takes two seconds
        of packets at most, so that a machine that is still warming up shows something too.
        """
        facts = {"rate": self.rate, "rows": self.rows, "seed": self.seed}
        facts |= {"keys": max(100, self.rate * 5 // 2), "at_most": 2 * self.rate}
        streams = [STREAM.format(name=name, **facts) for name in ("r1", "r2", "r3")]
        return "\n".join(streams) + QUERY


@dataclass(frozen=True)
class Verdict:
    """How the answers compare with those of `judge` on the same packets."""

    judge: str
    expected: int
    missing: int
    extra: int

    @property
    def holds(self) -> bool:
        return self.missing == 0 and self.extra == 0


@dataclass(frozen=True)
class Outcome:
    """What came out; `answers` has the columns of the query, its time in microseconds."""

    pipeline: Pipeline
    job: Job
    answers: pa.Table
    batches: tuple[Progress, ...]

    @property
    def busy_s(self) -> float:
        """How long the batches took that had packets to take."""
        return max(1, sum(batch.batch_ms for batch in self.batches if batch.rows)) / 1000


def run_demo(demo: Demo, session: Session, folder: Path, console: Console, until: Callable[[], bool]) -> bool:
    """Runs and tells all of it; whether the answers are right. Stopped by `until`, it only stops."""
    file = folder / "pipeline.sql"
    file.write_text(demo.pipeline())
    console.print(Syntax(demo.pipeline(), "sql", background_color="default", word_wrap=True))
    outcome = _join(demo, session, file, console, until)
    if until():
        return True
    _tell_top(console, outcome)
    console.print(Text("\nthe plan\n", style="bold cyan"))
    console.print(Text(explain_plan(outcome.job.plan)), soft_wrap=True)
    _tell_throughput(console, outcome)
    verdict = judge(demo, outcome.pipeline, outcome.answers)
    _tell_verdict(console, demo, verdict)
    return verdict.holds


def _join(demo: Demo, session: Session, file: Path, console: Console, until: Callable[[], bool]) -> Outcome:
    """Follows the query until every packet has been taken."""
    batches: list[Progress] = []
    [job] = session.start(file)
    with open_display(console, title="packets to the same destination through three routers") as display:

        def show(job: Job, progress: Progress) -> None:
            batches.append(progress)
            display.show(progress)

        def is_done() -> bool:
            return until() or bool(batches and batches[-1].total_rows >= 3 * demo.rows)

        follow([job], show, until=is_done)
    job.stop()
    answers = session.spark.read.parquet(str(file.parent / "out")).toArrow() if batches else pa.table({})
    return Outcome(session.read(file), job, _in_microseconds(answers, "answer_time"), tuple(batches))


def packets(demo: Demo, pipeline: Pipeline) -> dict[str, pa.Table]:
    """The tuples of every stream, made again, event times in microseconds."""
    tables = {}
    for stream in pipeline.streams:
        assert stream.source is not None
        generator = parse_options(dict(stream.source.options), stream.columns)
        table = pa.Table.from_batches([generate(generator, 0, demo.rows)])
        tables[stream.name] = _in_microseconds(table, "ts")
    return tables


def _in_microseconds(table: pa.Table, column: str) -> pa.Table:
    if column not in table.column_names:
        return table
    index = table.column_names.index(column)
    return table.set_column(index, column, table[column].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()))


def judge(demo: Demo, pipeline: Pipeline, answers: pa.Table) -> Verdict:
    """Joins the packets again, elsewhere, and compares the two bags of answers."""
    streams = packets(demo, pipeline)
    if find_spec("duckdb") is not None:
        return judge_by_duckdb(streams, answers)
    return judge_by_oracle(pipeline, streams, answers)


def judge_by_duckdb(streams: dict[str, pa.Table], answers: pa.Table) -> Verdict:
    """All answers against a database that knows nothing of windows or streams."""
    import duckdb

    window_us = WINDOW_MS * 1000
    with duckdb.connect() as database:
        for name, table in {**streams, "answers": answers}.items():
            database.register(name, table)
        database.execute(f"""
            CREATE TABLE expected AS
            SELECT r1.dest, r1.size AS size_1, r2.size AS size_2, r3.size AS size_3,
                   greatest(r1.ts, r2.ts, r3.ts) AS answer_time
            FROM r1 JOIN r2 ON r1.dest = r2.dest AND abs(r1.ts - r2.ts) <= {window_us}
                    JOIN r3 ON r2.dest = r3.dest AND abs(r2.ts - r3.ts) <= {window_us}
                           AND abs(r1.ts - r3.ts) <= {window_us}""")

        def number(sql: str) -> int:
            return int(database.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0])

        return Verdict(
            "DuckDB",
            number("FROM expected"),
            missing=number("FROM expected EXCEPT ALL FROM answers"),
            extra=number("FROM answers EXCEPT ALL FROM expected"),
        )


def judge_by_oracle(pipeline: Pipeline, streams: dict[str, pa.Table], answers: pa.Table) -> Verdict:
    """The answers of the destinations that the first packets went to, each with all its packets."""
    first = streams["r1"]["dest"].unique()
    largest = max(table.num_rows for table in streams.values())
    sample = first.slice(0, max(1, len(first) * SAMPLE_ROWS // max(largest, SAMPLE_ROWS)))
    batch = {name: _tuples(_of(table, sample)) for name, table in streams.items()}
    expected = oracle.bag(oracle.run(pipeline.queries[0], [batch], flush=True).rows)
    found = oracle.bag(tuple(row.values()) for row in _of(answers, sample).to_pylist())
    return Verdict(
        f"the oracle, for {len(sample)} of {len(first)} destinations",
        expected.total(),
        missing=(expected - found).total(),
        extra=(found - expected).total(),
    )


def _of(table: pa.Table, destinations: Any) -> pa.Table:
    return table.filter(pc.is_in(table["dest"], value_set=destinations))


def _tuples(table: pa.Table) -> list[oracle.Tuple]:
    return [oracle.Tuple(row["ts"], row) for row in table.to_pylist()]


def _tell_top(console: Console, outcome: Outcome) -> None:
    counts = outcome.answers.group_by("dest").aggregate([([], "count_all")])
    top = counts.sort_by([("count_all", "descending"), ("dest", "ascending")]).slice(0, TOP)
    table = Table(
        title="destinations met most often", title_justify="left", title_style="bold cyan", box=None
    )
    table.add_column("destination")
    table.add_column("answers", justify="right")
    table.add_column("share", justify="right")
    for row in top.to_pylist():
        share = row["count_all"] / outcome.answers.num_rows
        table.add_row(row["dest"], f"{row['count_all']:,}", f"{share:.2%}")
    console.print()
    console.print(table)


def _tell_throughput(console: Console, outcome: Outcome) -> None:
    last = outcome.batches[-1]
    facts = Table.grid(padding=(0, 2))
    for name, number in (("packets", last.total_rows), ("answers", last.total_answers)):
        facts.add_row(name, f"{number:,}", f"{count(number / outcome.busy_s)} a second")
    facts.add_row("late", f"{last.total_late:,}", "")
    times = [batch.batch_ms for batch in outcome.batches if batch.rows]
    spread = f"{median(times):.0f} ms in the middle, {max(times)} ms at most"
    facts.add_row("batches", f"{len(times)}", spread)
    console.print(Text(f"\nthroughput, over the {outcome.busy_s:.1f} s at work", style="bold cyan"))
    console.print(facts)


def _tell_verdict(console: Console, demo: Demo, verdict: Verdict) -> None:
    console.print(Text("\nthe verdict", style="bold cyan"))
    if verdict.holds:
        same = f"{verdict.expected:,} answers, each once, as {verdict.judge} gives"
        packets = f"on the same {3 * demo.rows:,} packets"
        console.print(Text.assemble(("the same ", "bold green"), f"{same} {packets}"), soft_wrap=True)
    else:
        wrong = f"{verdict.missing:,} answers are missing and {verdict.extra:,} should not be there"
        console.print(Text.assemble(("wrong: ", "bold red"), f"{wrong}, says {verdict.judge}"))
