"""The kernel of a shared dataflow alone, on one core: how many queries at which rate, in how much memory.

    python benchmarks/many_queries.py                      # 1, 10, 100, 1000, 10,000 queries
    python benchmarks/many_queries.py --queries 1000 --profile
    python benchmarks/many_queries.py --constants          # 10,000 that differ only in constants, against one

The workload is RJoin's: random 3- and 4-way chain joins over 10 streams of 10 attributes, RANGE windows, each
attribute drawn from a large domain. Batches go through all levels of one bucket; results are handed on.
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import pstats
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.kernel import TS, SharedBucket
from watersmeet.plan.multiquery.plan_dataflow import Registered, plan_dataflow
from watersmeet.query import (
    BEGINNING,
    Attribute,
    AttributeClass,
    Column,
    ColumnRef,
    Expr,
    Input,
    JoinGraph,
    Output,
    Query,
    Stream,
    column_expr,
    range_us,
)
from watersmeet.query.shared_dataflow import SharedDataflow

SECOND = 1_000_000


@dataclass(frozen=True)
class Setting:
    streams: int = 10
    attributes: int = 10
    domain: int = 1_000_000
    window_s: int = 60
    rows_per_s: int = 1000  # of all streams together
    batch_s: int = 10
    batches: int = 12
    levels: int = 3

    @property
    def declared(self) -> list[Stream]:
        columns = [Column(f"a{n}", "bigint") for n in range(self.attributes)]
        return [
            Stream(f"s{n}", (*columns, Column("ts", "timestamp")), "ts", lateness_us=SECOND)
            for n in range(self.streams)
        ]


def chain(setting: Setting, streams: Sequence[Stream], rng: random.Random) -> Query:
    """A chain of 3 or 4 streams, each pair equal on two attributes drawn at random."""
    chosen = rng.sample(streams, rng.choice((3, 4)))
    aliases = [stream.name for stream in chosen]
    classes = []
    for left, right in itertools.pairwise(aliases):
        names = rng.choices(range(setting.attributes), k=2)
        sides = [column_expr(alias, f"a{n}", "bigint") for alias, n in zip((left, right), names, strict=True)]
        pair = tuple(Attribute(alias, side) for alias, side in zip((left, right), sides, strict=True))
        classes.append(AttributeClass(pair, "bigint"))
    return Query(
        inputs=tuple(Input(stream.name, stream, range_us(setting.window_s * SECOND)) for stream in chosen),
        graph=JoinGraph(tuple(aliases), tuple(classes)),
        select=tuple(Output(f"{alias}_a0", column_expr(alias, "a0", "bigint")) for alias in aliases),
    )


def random_chains(setting: Setting, count: int) -> list[Registered]:
    rng, streams = random.Random(7), setting.declared
    return [Registered(f"q{n}", n, chain(setting, streams, rng)) for n in range(count)]


def alike(setting: Setting, count: int) -> list[Registered]:
    """One chain asked by many, each for another constant."""
    rng, streams = random.Random(7), setting.declared
    query = chain(setting, streams, rng)
    alias = query.inputs[0].alias
    registered = []
    for n in range(count):
        wanted = Expr(f"{alias}.a1 = {n}", (ColumnRef(alias, "a1"),), "boolean")
        first = Input(alias, query.inputs[0].stream, query.inputs[0].window, (wanted,))
        one = Query((first, *query.inputs[1:]), query.graph, query.select)
        registered.append(Registered(f"q{n}", n, one))
    return registered


def batches_of(setting: Setting) -> Iterator[dict[str, pa.RecordBatch]]:
    rng = np.random.default_rng(11)
    rows = setting.rows_per_s * setting.batch_s // setting.streams
    for number in range(setting.batches):
        batch = {}
        for stream in setting.declared:
            start = number * setting.batch_s * SECOND
            ts = np.sort(rng.integers(start, start + setting.batch_s * SECOND, rows))
            columns = {TS: ts} | {
                f"a{n}": rng.integers(0, setting.domain, rows) for n in range(setting.attributes)
            }
            columns["ts"] = pa.array(ts).cast(pa.timestamp("us", "UTC"))
            batch[stream.name] = pa.record_batch(columns)
        yield batch


@dataclass
class Outcome:
    seconds: float = 0.0
    rows: int = 0
    answers: int = 0
    results: int = 0
    state_bytes: int = 0
    memory_bytes: int = 0


def run(setting: Setting, dataflow: SharedDataflow) -> Outcome:
    """Time and memory of the second half of the batches, when windows are full."""
    buckets = {level: SharedBucket(dataflow, level) for level in range(1, dataflow.levels + 1)}
    relations = {relation.name: relation.level for relation in dataflow.relations}
    before = dict.fromkeys(dataflow.streams, BEGINNING)
    outcome = Outcome()
    for number, batch in enumerate(batches_of(setting)):
        after = dict.fromkeys(dataflow.streams, (number + 1) * setting.batch_s * SECOND - SECOND)
        started = time.perf_counter()
        inboxes: dict[int, dict[str, list[pa.RecordBatch]]] = {level: {} for level in buckets}
        for feed in dataflow.feeds:
            names = dict.fromkeys((TS, *(key.name for key in feed.keys), *feed.columns))
            for level in feed.levels:
                inboxes[level][feed.name] = [batch[feed.stream].select(list(names))]
        for level, bucket in buckets.items():
            for rows in bucket.step(inboxes[level], before, after, number):
                if isinstance(rows.target, str):
                    inboxes[relations[rows.target]].setdefault(rows.target, []).extend(
                        rows.table.to_batches()
                    )
        before = after
        if number >= setting.batches // 2:
            outcome.seconds += time.perf_counter() - started
            outcome.rows += sum(one.num_rows for one in batch.values())
            outcome.answers += sum(sum(one.counts.answers.values()) for one in buckets.values())
            outcome.results += sum(one.counts.results for one in buckets.values())
    outcome.state_bytes = sum(sum(one.state_bytes.values()) for one in buckets.values())
    outcome.memory_bytes = sum(one.nbytes for one in buckets.values())
    return outcome


def report(setting: Setting, registered: Sequence[Registered], *, profile: bool = False) -> None:
    started = time.perf_counter()
    dataflow = plan_dataflow(registered, setting.declared, setting.levels)
    planned = time.perf_counter() - started
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    outcome = run(setting, dataflow)
    profiler.disable()
    print(
        f"{len(registered):>6,} queries: {outcome.rows / outcome.seconds:>9,.0f} rows/s, "
        f"{outcome.seconds / (setting.batches - setting.batches // 2):.2f} s a batch, "
        f"{outcome.results:,} results, {outcome.answers:,} answers, "
        f"{outcome.state_bytes / 1e6:,.0f} MB of state, {outcome.memory_bytes / 1e6:,.0f} MB with indexes; "
        f"{len(dataflow.relations):,} relations, {len(dataflow.joins):,} joins, planned in {planned:.1f} s",
        flush=True,
    )
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--queries", type=int, nargs="*", default=[1, 10, 100, 1000, 10_000])
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--domain", type=int, default=Setting.domain)
    chosen = parser.parse_args()
    setting = Setting(domain=chosen.domain)
    report(setting, random_chains(setting, 1))  # compiles
    for count in [1, 10_000] if chosen.constants else chosen.queries:
        queries = alike(setting, count) if chosen.constants else random_chains(setting, count)
        report(setting, queries, profile=chosen.profile)


if __name__ == "__main__":
    main()
