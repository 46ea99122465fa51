"""`watersmeet bench`: our engine, Spark's own cascade and DuckDB on the same data, one after another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from watersmeet.cli.terminal.messages import tell
from watersmeet.errors import ConfigurationError

QUICK_WARM_UP_S = 10
SKEW = "skew"  # no comparison of engines, but of ours with itself
QUERIES = "queries"  # many queries in a ring, against as many streaming queries
ROUTINGS = "routings"  # the ways of routing a query
QUERIES_ROWS = 20_000
ROUTINGS_ROWS = 50_000
SKEW_ROWS = 150_000


def bench_command(
    workloads: Annotated[
        list[str] | None,
        typer.Argument(
            help="Which workloads [default: all]; `skew` is what spreading hot values brings, `queries` what "
            "many queries cost, `routings` how the ways of routing a query compare.",
            metavar="WORKLOAD",
        ),
    ] = None,
    batch_rows: Annotated[
        list[int] | None, typer.Option(help="Rows a batch, all streams together; may be repeated.", min=1)
    ] = None,
    batches: Annotated[int, typer.Option(help="Batches, of which the first three are warm-up.", min=4)] = 12,
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
    out: Annotated[Path, typer.Option(help="Where bench.json and bench.svg go.")] = Path("out/bench"),
) -> None:
    """Compare throughput, batch times and memory; the engines' answers are compared too."""
    alone = {SKEW: _bench_skew, QUERIES: _bench_queries, ROUTINGS: _bench_routings}
    if workloads and (asked := [name for name in workloads if name in alone]):
        if len(workloads) > 1:
            raise ConfigurationError(f"{asked[0]} is a comparison of another kind: run it on its own")
        if batch_rows and len(batch_rows) > 1:
            raise ConfigurationError(f"{asked[0]} takes one --batch-rows")
        alone[asked[0]](batch_rows[0] if batch_rows else None, batches, warm_up, out)
        return
    from watersmeet.bench.compare import ENGINE_NAMES, SWEEP, compare
    from watersmeet.bench.engines import WARM_UP_S
    from watersmeet.bench.report import as_table, write
    from watersmeet.bench.workloads import WORKLOADS

    chosen = engines.split(",")
    unknown = [name for name in chosen if name not in ENGINE_NAMES]
    if unknown:
        raise ConfigurationError(f"there is no engine {unknown[0]}; there are {', '.join(ENGINE_NAMES)}")
    names = workloads or (["netmon3"] if quick else list(WORKLOADS))
    sizes = batch_rows or ([50_000] if quick else list(SWEEP))
    warm_up_s = warm_up if warm_up is not None else (QUICK_WARM_UP_S if quick else WARM_UP_S)
    console, comparisons = Console(), []
    for name in names:
        for size in sizes:
            comparison = compare(
                name,
                batch_rows=size,
                batches=batches,
                engines=chosen,
                warm_up_s=warm_up_s,
                partitions=partitions,
                tell=tell,
            )
            comparisons.append(comparison)
            console.print(as_table(comparison))
    data, picture = write(comparisons, out)
    tell(f"figures in {data}, a picture in {picture}")
    ratios = [c.speedup(engine) for c in comparisons for engine in ("cascade", "cascade-rocksdb")]
    slowest = min((ratio for ratio in ratios if ratio is not None), default=None)
    if at_least is not None and (slowest is None or slowest < at_least):
        tell(f"ours is {slowest or 0:.2f}x as fast as a cascade, less than {at_least}x")
        raise typer.Exit(1)


def _bench_skew(batch_rows: int | None, batches: int, warm_up: float | None, out: Path) -> None:
    from watersmeet.bench.skew import as_table, bench_skew, write

    rows = batch_rows or SKEW_ROWS
    warm_up_s = QUICK_WARM_UP_S if warm_up is None else warm_up
    figures = bench_skew(batch_rows=rows, batches=batches, warm_up_s=warm_up_s, tell=tell)
    Console().print(as_table(figures))
    tell(f"figures in {write(figures, out, batch_rows=rows, batches=batches)}")


def _bench_queries(batch_rows: int | None, batches: int, warm_up: float | None, out: Path) -> None:
    from watersmeet.bench.queries import as_table, bench_queries, write

    rows = batch_rows or QUERIES_ROWS
    figures = bench_queries(batch_rows=rows, batches=batches, tell=tell)
    Console().print(as_table(figures))
    tell(f"figures in {write(figures, out, batch_rows=rows, batches=batches)}")


def _bench_routings(batch_rows: int | None, batches: int, warm_up: float | None, out: Path) -> None:
    from watersmeet.bench.routings import as_table, bench_routings, write

    rows = batch_rows or ROUTINGS_ROWS
    warm_up_s = QUICK_WARM_UP_S if warm_up is None else warm_up
    figures = bench_routings(batch_rows=rows, batches=batches, warm_up_s=warm_up_s, tell=tell)
    Console().print(as_table(figures))
    tell(f"figures in {write(figures, out, batch_rows=rows, batches=batches)}")
