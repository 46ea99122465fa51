"""The demonstration on the screen: the live join, its busiest destinations, the plan, the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pyarrow as pa
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from watersmeet.cli.demonstration.demo import Demo
from watersmeet.cli.demonstration.judge import Verdict, in_microseconds, judge
from watersmeet.cli.terminal.progress_display import count, open_display
from watersmeet.plan.explain.physical import explain_plan
from watersmeet.query import Pipeline
from watersmeet.session import Session
from watersmeet.spark.jobs.job import Job
from watersmeet.spark.jobs.pipeline_run import AnyJob
from watersmeet.spark.metrics.progress import Progress

TOP = 10  # destinations shown


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


def show_demo(
    demo: Demo, session: Session, folder: Path, console: Console, until: Callable[[], bool]
) -> bool:
    """Runs and shows it; whether the answers are right. Once `until` is true it stops and checks nothing."""
    file = folder / "pipeline.sql"
    file.write_text(demo.pipeline())
    console.print(Syntax(demo.pipeline(), "sql", background_color="default", word_wrap=True))
    outcome = _join(demo, session, file, console, until)
    if until():
        return True
    _show_top(console, outcome)
    console.print(Text("\nthe plan\n", style="bold cyan"))
    console.print(Text(explain_plan(outcome.job.plan)), soft_wrap=True)
    _show_throughput(console, outcome)
    verdict = judge(demo, outcome.pipeline, outcome.answers)
    _show_verdict(console, demo, verdict)
    return verdict.holds


def _join(demo: Demo, session: Session, file: Path, console: Console, until: Callable[[], bool]) -> Outcome:
    """Follows the query until every packet has been taken."""
    batches: list[Progress] = []
    run = session.start(file)
    with open_display(console, title="packets to the same destination through three routers") as display:

        def show(job: AnyJob, progress: Progress) -> None:
            batches.append(progress)
            display.show(progress)

        def is_done() -> bool:
            return until() or bool(batches and batches[-1].totals.rows >= 3 * demo.rows)

        run.follow(show, until=is_done)
    run.stop()
    answers = session.spark.read.parquet(str(file.parent / "out")).toArrow() if batches else pa.table({})
    (job,) = run.jobs
    assert isinstance(job, Job), "the demonstration runs at one place"
    return Outcome(session.read(file), job, in_microseconds(answers, "answer_time"), tuple(batches))


def _show_top(console: Console, outcome: Outcome) -> None:
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


def _show_throughput(console: Console, outcome: Outcome) -> None:
    last = outcome.batches[-1]
    facts = Table.grid(padding=(0, 2))
    for name, number in (("packets", last.totals.rows), ("answers", last.totals.answers)):
        facts.add_row(name, f"{number:,}", f"{count(number / outcome.busy_s)} a second")
    facts.add_row("late", f"{last.totals.late:,}", "")
    times = [batch.batch_ms for batch in outcome.batches if batch.rows]
    spread = f"{median(times):.0f} ms in the middle, {max(times)} ms at most"
    facts.add_row("batches", f"{len(times)}", spread)
    console.print(Text(f"\nthroughput, over the {outcome.busy_s:.1f} s at work", style="bold cyan"))
    console.print(facts)


def _show_verdict(console: Console, demo: Demo, verdict: Verdict) -> None:
    console.print(Text("\nthe verdict", style="bold cyan"))
    if verdict.holds:
        same = f"{verdict.expected:,} answers, each once, as {verdict.judge} gives"
        packets = f"on the same {3 * demo.rows:,} packets"
        console.print(Text.assemble(("the same ", "bold green"), f"{same} {packets}"), soft_wrap=True)
    else:
        wrong = f"{verdict.missing:,} answers are missing and {verdict.extra:,} should not be there"
        console.print(Text.assemble(("wrong: ", "bold red"), f"{wrong}, says {verdict.judge}"))
