"""`watersmeet bench`: benchmarks, each a command that prints a table and writes its figures as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from watersmeet.cli.terminal.messages import tell
from watersmeet.errors import ConfigurationError

if TYPE_CHECKING:
    from watersmeet.bench.compare import Comparison

QUICK_WARM_UP_S = 10

bench_commands = typer.Typer(
    help="Benchmarks: speed, batch times and memory, with the answers compared too.",
    no_args_is_help=True,
    add_completion=False,
)

Batches = Annotated[int, typer.Option(help="Batches, of which the first three are warm-up.", min=4)]
BatchRows = Annotated[int, typer.Option(help="Rows a batch, all streams together.", min=1)]
WarmUp = Annotated[float, typer.Option(help="Seconds of running before anything is measured.", min=0)]
Out = Annotated[Path, typer.Option(help="The folder for the figures.", metavar="DIR")]
OUT = Path("out/bench")


@bench_commands.command("joins")
def bench_joins(
    workloads: Annotated[
        list[str] | None, typer.Argument(help="Which workloads [default: all].", metavar="WORKLOAD")
    ] = None,
    batch_rows: Annotated[
        list[int] | None, typer.Option(help="Rows a batch, all streams together; may be repeated.", min=1)
    ] = None,
    batches: Batches = 12,
    engines: Annotated[
        str, typer.Option(help="Which engines, separated by commas.")
    ] = "ours,cascade,cascade-rocksdb,duckdb",
    warm_up: Annotated[
        float | None,
        typer.Option(
            help="Seconds each engine runs before it is measured [default: 40, with --quick 10].", min=0
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            help="Shuffle partitions of every engine [default: ours as a session has them, "
            "one a core for Spark's joins].",
            min=1,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="netmon3 alone, at 50,000 rows a batch, in a few minutes.")
    ] = False,
    at_least: Annotated[
        float | None,
        typer.Option(help="Fail unless ours is this many times as fast as the faster cascade.", min=0),
    ] = None,
    out: Out = OUT,
) -> None:
    """Compare our engine with Spark's own cascade of joins and with DuckDB on the same data."""
    from watersmeet.bench.compare import SWEEP, compare
    from watersmeet.bench.engines import WARM_UP_S
    from watersmeet.bench.report import as_table, write
    from watersmeet.bench.workloads import WORKLOADS

    chosen = _engines(engines)
    console, comparisons = Console(), []
    for name in workloads or (["netmon3"] if quick else list(WORKLOADS)):
        for size in batch_rows or ([50_000] if quick else list(SWEEP)):
            comparison = compare(
                name,
                batch_rows=size,
                batches=batches,
                engines=chosen,
                warm_up_s=warm_up if warm_up is not None else (QUICK_WARM_UP_S if quick else WARM_UP_S),
                partitions=partitions,
                report=tell,
            )
            comparisons.append(comparison)
            console.print(as_table(comparison))
    data, picture = write(comparisons, out)
    tell(f"figures in {data}, a picture in {picture}")
    if at_least is not None:
        _require_speed(comparisons, at_least)


def _require_speed(comparisons: Sequence[Comparison], at_least: float) -> None:
    """Fails unless ours is this many times as fast as every cascade."""
    ratios = [c.speedup(engine) for c in comparisons for engine in ("cascade", "cascade-rocksdb")]
    slowest = min((ratio for ratio in ratios if ratio is not None), default=None)
    if slowest is None or slowest < at_least:
        tell(f"ours is {slowest or 0:.2f}x as fast as a cascade, less than {at_least}x")
        raise typer.Exit(1)


def _engines(names: str) -> list[str]:
    from watersmeet.bench.compare import ENGINE_NAMES

    chosen = names.split(",")
    for name in chosen:
        if name not in ENGINE_NAMES:
            raise ConfigurationError(f"there is no engine {name}; there are {', '.join(ENGINE_NAMES)}")
    return chosen


@bench_commands.command("skew")
def bench_skew(
    batch_rows: BatchRows = 150_000, batches: Batches = 12, warm_up: WarmUp = QUICK_WARM_UP_S, out: Out = OUT
) -> None:
    """Measure what spreading hot values brings: skewed streams with it and without it."""
    from watersmeet.bench import skew

    figures = skew.bench_skew(batch_rows=batch_rows, batches=batches, warm_up_s=warm_up, report=tell)
    Console().print(skew.as_table(figures))
    tell(f"figures in {skew.write(figures, out, batch_rows=batch_rows, batches=batches)}")


@bench_commands.command("queries")
def bench_queries(batch_rows: BatchRows = 20_000, batches: Batches = 12, out: Out = OUT) -> None:
    """Measure what many queries cost in one shared dataflow, and as many streaming queries of Spark's own."""
    from watersmeet.bench import queries

    figures = queries.bench_queries(batch_rows=batch_rows, batches=batches, report=tell)
    Console().print(queries.as_table(figures))
    tell(f"figures in {queries.write(figures, out, batch_rows=batch_rows, batches=batches)}")


@bench_commands.command("outer")
def bench_outer(
    batch_rows: BatchRows = 150_000,
    batches: Batches = 24,
    warm_up: WarmUp = QUICK_WARM_UP_S,
    engines: Annotated[str, typer.Option(help="Which engines, separated by commas.")] = "ours,inner,spark",
    out: Out = OUT,
) -> None:
    """Compare left joins with the inner join of the same streams, and with Spark's own left joins."""
    from watersmeet.bench import outer

    figures = outer.bench_outer(
        batch_rows=batch_rows,
        batches=batches,
        warm_up_s=warm_up,
        engines=engines.split(","),
        report=tell,
    )
    Console().print(outer.as_table(figures))
    tell(f"figures in {outer.write(figures, out, batch_rows=batch_rows, batches=batches)}")


@bench_commands.command("routings")
def bench_routings(
    batch_rows: BatchRows = 50_000, batches: Batches = 12, warm_up: WarmUp = QUICK_WARM_UP_S, out: Out = OUT
) -> None:
    """Compare the ways of routing a query, for four shapes of join graph."""
    from watersmeet.bench import routings

    figures = routings.bench_routings(batch_rows=batch_rows, batches=batches, warm_up_s=warm_up, report=tell)
    Console().print(routings.as_table(figures))
    tell(f"figures in {routings.write(figures, out, batch_rows=batch_rows, batches=batches)}")


@bench_commands.command("asof")
def bench_asof(
    batch_rows: BatchRows = 500_000,
    batches: Batches = 12,
    warm_up: WarmUp = QUICK_WARM_UP_S,
    keys: Annotated[int, typer.Option(help="How many keys there are rates of.", min=1000)] = 1_000_000,
    at_least: Annotated[
        float | None,
        typer.Option(help="Fail unless it is this many times as fast as windows of time.", min=0),
    ] = None,
    out: Out = OUT,
) -> None:
    """Measure an as-of join, [PARTITION BY k ROWS 1], beside the same join under windows of time."""
    from watersmeet.bench import as_of

    figures = as_of.bench_as_of(
        keys=keys, batch_rows=batch_rows, batches=batches, warm_up_s=warm_up, report=tell
    )
    Console().print(as_of.as_table(figures))
    tell(f"figures in {as_of.write(figures, out, batch_rows=batch_rows, batches=batches, keys=keys)}")
    share = as_of.share_of_range(figures)
    if at_least is not None and share < at_least:
        tell(f"an as-of join is {share:.2f}x as fast as windows of time, less than {at_least}x")
        raise typer.Exit(1)
