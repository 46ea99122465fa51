"""The kernel alone, on one core: 3 streams, one key, RANGE windows.

    python benchmarks/kernel.py
    python benchmarks/kernel.py --parts    # where the time of a batch goes, in both settings

Prints input rows/s after warm-up at the base setting, the ratio of the time per batch when both the window
and the key domain are 20 times larger (cost must follow the new tuples, not the window), and memory per live
tuple.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.kernel import TS, MultiwayJoin, lay_out
from watersmeet.kernel.columns import hash_index
from watersmeet.kernel.state import slice as slice_module
from watersmeet.kernel.state.store import TupleStore
from watersmeet.query import (
    Attribute,
    AttributeClass,
    Column,
    Input,
    JoinGraph,
    Output,
    Query,
    Stream,
    column_expr,
    range_us,
)

ALIASES = ("a", "b", "c")
WARM_UP = 5
PARTS: tuple[tuple[Any, str, str], ...] = (
    (hash_index, "link_entries", "linking new tuples"),
    (slice_module, "walk_on", "finding pairs by hash"),
    (slice_module, "overlapping_pairs", "reading the facts of pairs"),
    (TupleStore, "index", "indexing in all"),
    (TupleStore, "take", "fetching payload"),
)


@dataclass(frozen=True)
class Setting:
    rows: int = 1_000_000
    keys: int = 50_000
    window_s: int = 10
    span_s: int = 1000
    batches: int = 20
    key_type: str = "bigint"


@dataclass(frozen=True)
class Measured:
    seconds: list[float]
    rows_per_batch: int
    answers: int
    index_bytes_per_row: float
    payload_bytes_per_row: float

    @property
    def rows_per_s(self) -> float:
        return self.rows_per_batch / statistics.median(self.seconds)


def batches(setting: Setting) -> list[dict[str, pa.RecordBatch]]:
    """Each stream: uniform keys, evenly spread event times, a payload column."""
    made: list[dict[str, pa.RecordBatch]] = [{} for _ in range(setting.batches)]
    for seed, alias in enumerate(ALIASES):
        random = np.random.default_rng(seed)
        keys = random.integers(0, setting.keys, setting.rows)
        column = pa.array(keys) if setting.key_type == "bigint" else pa.array([f"10.0.{k}" for k in keys])
        ts = np.sort(random.integers(0, setting.span_s * 1_000_000, setting.rows))
        whole = pa.record_batch(
            {TS: pa.array(ts), "__key0": column, "size": pa.array(random.integers(40, 1500, setting.rows))}
        )
        share = setting.rows // setting.batches
        for number in range(setting.batches):
            made[number][alias] = whole.slice(number * share, share)
    return made


def measure(setting: Setting) -> Measured:
    """Feeds all batches to a fresh join; the watermark follows with no lateness."""
    columns = (Column("dest", setting.key_type), Column("size", "bigint"), Column("ts", "timestamp"))
    window = range_us(setting.window_s * 1_000_000)
    inputs = tuple(Input(alias, Stream(f"s_{alias}", columns, "ts"), window) for alias in ALIASES)
    key = AttributeClass(tuple(Attribute(alias, column_expr(alias, "dest")) for alias in ALIASES))
    select = tuple(Output(f"size_{alias}", column_expr(alias, "size")) for alias in ALIASES)
    query = Query(inputs, JoinGraph(ALIASES, (key,)), select)
    join, seconds, answers = MultiwayJoin(lay_out(query)), [], 0
    for new in batches(setting):
        watermark = min(int(batch.column(TS)[-1].as_py()) for batch in new.values())
        start = time.perf_counter()
        answers += sum(table.num_rows for table in join.step(new, watermark))
        seconds.append(time.perf_counter() - start)
    live = sum(store.indexed_rows for store in join.stores.values())
    return Measured(
        seconds[WARM_UP:],
        len(ALIASES) * setting.rows // setting.batches,
        answers,
        join.index_bytes / live,
        join.payload_bytes / max(1, join.live_rows),
    )


def time_parts() -> dict[str, float]:
    """Seconds spent in each part from now on."""
    spent: dict[str, float] = defaultdict(float)

    def timed(part: Callable[..., Any], label: str) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            start = time.perf_counter()
            result = part(*arguments)
            spent[label] += time.perf_counter() - start
            return result

        return run

    for owner, name, label in PARTS:
        setattr(owner, name, timed(getattr(owner, name), label))
    return spent


def print_parts(base: Setting, wide: Setting) -> None:
    """The mean milliseconds a batch spends in each part, warm-up included."""
    spent, columns = time_parts(), []
    for setting in (base, wide):
        spent.clear()
        measure(setting)
        columns.append({label: 1000 * spent[label] / setting.batches for _, _, label in PARTS})
    for _, _, label in PARTS:
        print(f"{label:>30}: base {columns[0][label]:5.2f} ms, x20 {columns[1][label]:5.2f} ms a batch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--key-type", choices=("bigint", "string"), default="bigint")
    parser.add_argument("--rounds", type=int, default=3, help="repeat and keep the best of each")
    parser.add_argument("--parts", action="store_true", help="say where the time of a batch goes")
    arguments = parser.parse_args()
    base = Setting(key_type=arguments.key_type)
    wide = Setting(key_type=arguments.key_type, window_s=200, keys=1_000_000)
    measure(Setting(rows=60_000, key_type=arguments.key_type))  # compile
    if arguments.parts:
        print_parts(base, wide)
        return
    rounds = [(measure(base), measure(wide)) for _ in range(arguments.rounds)]
    best = max((pair[0] for pair in rounds), key=lambda m: m.rows_per_s)
    best_wide = max((pair[1] for pair in rounds), key=lambda m: m.rows_per_s)
    print(f"base: {best.rows_per_s / 1e6:.2f} M input rows/s, {best.answers} answers")
    print(f"window and keys x20: {best_wide.rows_per_s / 1e6:.2f} M rows/s, {best_wide.answers} answers")
    print(f"time per batch, x20 over base: {best.rows_per_s / best_wide.rows_per_s:.2f}x")
    print(
        f"bytes per indexed tuple: {best_wide.index_bytes_per_row:.0f} index,"
        f" {best_wide.payload_bytes_per_row:.0f} payload"
    )


if __name__ == "__main__":
    main()
