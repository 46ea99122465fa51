"""What each stage leaves in the state store, which is part of the state format: keys, snapshots, chunks."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.kernel.feeding import feed
from tests.kernel.multiquery.feeding import run_dataflow
from tests.state_format.cases import (
    BATCHES,
    CASES,
    SECOND_US,
    STREAMS,
    TAILS,
    shared_dataflow,
    shared_queries,
)
from tests.state_format.golden import compare
from tests.state_format.stored import Persisted
from watersmeet.errors import DataError
from watersmeet.kernel import (
    TS,
    Bucket,
    Changes,
    DistinctValues,
    Grid,
    HotTable,
    HotValue,
    LatenessPolicy,
    OpenValues,
    PersistedChunk,
    Punctuation,
    StateLimit,
    StreamBounds,
    Summary,
    Tuning,
    Watermark,
    plan_bucket,
)
from watersmeet.kernel.columns.hashing import combine_hashes, hash_column
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS, ENDED
from watersmeet.kernel.routing.grid import coordinate
from watersmeet.plan.routing.routing import Pipeline, Rewrite
from watersmeet.query import NEVER, Query
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.exchange.hot_keys import HotKeys
from watersmeet.spark.exchange.labels import bucket_labels
from watersmeet.spark.exchange.routing_files import RoutingFiles
from watersmeet.spark.multiquery.stage import LevelState
from watersmeet.spark.stages.hot_key_coordinator import HotKeyCoordinator


def _joined(query: Query, limit: StateLimit | None = None) -> dict[str, Any]:
    """A join over all batches."""
    bucket, kept = Bucket(query, limit), Persisted()
    for batch in BATCHES:
        feed(bucket, batch)
        kept.keep(bucket.joins)
    return kept.describe()


@pytest.mark.parametrize("name", ["windows-of-time", "distinct", "aggregate", "chain-by-shares"])
def test_a_join_keeps_its_tuples_and_the_answers_that_wait(name: str) -> None:
    compare(f"bytes-join-{name}", _joined(CASES[name].query))


def test_a_join_under_a_limit_of_memory_keeps_what_it_has_shed() -> None:
    compare("bytes-join-limited", _joined(CASES["chain-by-shares"].query, StateLimit(1 << 20)))


def test_windows_of_rows_keep_tuples_before_the_join_and_in_it() -> None:
    query = CASES["windows-of-rows"].query
    bucket, before, after = Bucket(query), Persisted(), Persisted()
    assert bucket.ranks is not None
    for batch in BATCHES:
        feed(bucket, batch)
        before.keep(bucket.ranks)
        after.keep(bucket.joins)
    compare("bytes-numbering", before.describe())
    compare("bytes-join-windows-of-rows", after.describe())


def test_distinct_keeps_the_values_that_are_present() -> None:
    values, kept = DistinctValues(("customer", "n")), Persisted()
    for second in (1, 2):
        answers = {
            "customer": ["ada", "bo", "ada"],
            "n": pa.array([4, None, 4], pa.int32()),
            ANSWER_TS: [second * SECOND_US] * 3,
            ANSWER_END: [(second + 10) * SECOND_US, (second + 1) * SECOND_US, (second + 20) * SECOND_US],
        }
        values.step(pa.record_batch(answers))
        kept.keep(values)
    compare("bytes-distinct", kept.describe())


def _levels(dataflow: SharedDataflow, queries: dict[str, Query]) -> dict[str, Any]:
    """What the only bucket of each level keeps."""
    run = run_dataflow(lambda _: dataflow, queries, BATCHES, tuning=Tuning())
    bounds = StreamBounds({stream.name: LatenessPolicy(stream.lateness_us, None) for stream in STREAMS})
    for batch in BATCHES:
        bounds.advance(Punctuation({name: max(t.ts for t in tuples) for name, tuples in batch.items()}))
    described = {}
    for (level, _), bucket in sorted(run.buckets.items()):
        kept = Persisted()
        kept.keep(LevelState(dataflow, bucket, bounds if level == 1 else None, run.live))
        described[f"level {level}"] = kept.describe()
    return described


def test_a_shared_dataflow_keeps_relations_under_their_names() -> None:
    compare("bytes-shared", _levels(shared_dataflow(), shared_queries()))


def test_a_shared_dataflow_keeps_what_its_tails_hold_under_names_of_their_own() -> None:
    compare("bytes-tails", _levels(shared_dataflow(TAILS), shared_queries(TAILS)))


def test_values_of_answers_without_an_end_are_counted() -> None:
    values, kept = OpenValues(("name", "price")), Persisted()
    for second in range(3):
        answers = {
            "name": ["ada", None, "ada"],
            "price": pa.array([Decimal("1.50"), Decimal(2), None], pa.decimal128(10, 2)),
            ANSWER_TS: [second * SECOND_US, second * SECOND_US, (second - 1) * SECOND_US],
            ANSWER_END: [NEVER, (second + 1) * SECOND_US, second * SECOND_US if second else NEVER],
            ENDED: [False, False, second > 0],
        }
        values.step(pa.record_batch(answers))
        kept.keep(values)
    compare("bytes-open-values", kept.describe())


@pytest.mark.parametrize("name", ["pipeline", "rewriting"])
def test_levels_of_one_query_keep_relations_and_what_is_live(name: str) -> None:
    plan = CASES[name].plan
    assert isinstance(plan.routing, Pipeline | Rewrite)
    compare(f"bytes-{name}", _levels(plan.routing.dataflow, {"": plan.query}))


def test_chunks_are_cut_bundled_and_narrowed() -> None:
    kept = Persisted()
    count = 5000
    large = pa.record_batch(
        {
            TS: [SECOND_US * (1_700_000_000 + n) for n in range(count)],
            "small": list(range(count)),
            "wide": [n << 40 for n in range(count)],
            "null": pa.array([None, *range(count - 1)], pa.int64()),
            "text": ["x" * 1000] * count,
            "at": pa.array(range(count), pa.timestamp("us", "UTC")),
        }
    )
    few = pa.record_batch({TS: [1, 2], "k": ["a", None]})
    chunks = [("large", 0, large), ("few", 3, few), ("few", 4, few)]
    changes = Changes([PersistedChunk(*each) for each in chunks], [])
    kept.log.write(kept.log.read_head("FINGERPRINT"), changes, {})
    compare("bytes-chunks", kept.describe())


def test_hot_values_are_kept_in_the_first_bucket_and_in_files(tmp_path: Path) -> None:
    layout = plan_bucket(CASES["chain-by-shares"].query).layout
    streams = ("orders", "payments", "visits")
    table = HotTable((HotValue(0, 123, "o", 5 * SECOND_US),))
    state = {
        "clock": SECOND_US,
        "rows": 100,
        "sketches": {"0 o": Summary(8.0, {123: 4.0}).to_json()},
        "table": table.to_json(),
    }
    watermark = Watermark({name: LatenessPolicy(0, None) for name in streams})
    watermark.advance(Punctuation(dict.fromkeys(streams, SECOND_US)))
    coordinator = HotKeyCoordinator(layout, streams, Grid((3, 1)), HotKeys("", "", (0,)))
    files = RoutingFiles(tmp_path / "query")
    files.write(5, table)
    written = {
        str(path.relative_to(tmp_path)): json.loads(path.read_text())
        for path in sorted(tmp_path.rglob("*"))
        if path.is_file()
    }
    kept = json.loads(json.dumps(coordinator.step(state, [], watermark)))
    compare("bytes-hot-values", {"snapshot": kept, "files": written})


KEYS = {
    "bigint": pa.array([0, -1, 2**62], pa.int64()),
    "int": pa.array([0, -1, 7], pa.int32()),
    "string": pa.array(["", "ada", "a longer text: ü"]),
    "binary": pa.array([b"", b"\x00", b"\xff"]),
    "boolean": pa.array([True, False]),
    "float": pa.array([0.0, -0.0, 1.5], pa.float32()),
    "double": pa.array([0.0, -0.0, float("nan"), 1.5]),
    "decimal": pa.array([Decimal("1.50"), Decimal("-1.50")], pa.decimal128(10, 2)),
    "date": pa.array([dt.date(2024, 2, 29)]),
    "timestamp": pa.array([1, 2], pa.timestamp("us", "UTC")),
    "array": pa.array([[1, 2], [], [None]], pa.list_(pa.int64())),
    "struct": pa.array([{"a": 1, "b": "x"}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
}


def test_tuples_find_their_bucket_by_the_same_hash_in_every_version() -> None:
    """Otherwise what is kept would be in one bucket, and what comes to meet it in another."""
    hashes = {name: hash_column(values) for name, values in KEYS.items()}
    buckets = {name: [coordinate(int(one), 7) for one in found] for name, found in hashes.items()}
    compare(
        "bytes-routing",
        {
            "hashes": {name: [f"{one:016x}" for one in found] for name, found in hashes.items()},
            "combined": [f"{one:016x}" for one in combine_hashes([hashes["bigint"], hashes["string"]])],
            "bucket of 7": buckets,
            "labels": {str(count): bucket_labels(count) for count in (1, 2, 3, 8)},
        },
    )


@pytest.mark.parametrize(
    ("fingerprint", "written"),
    [
        ("state format 3\nshuffle partitions 3", "state format 3, by an older"),
        ('{"format": 99}', "state format 99, by a newer"),
    ],
)
def test_a_head_of_another_format_is_refused(fingerprint: str, written: str) -> None:
    """Where the checkpoint is one's own, the state store is the first to know."""
    kept = Persisted()
    head = {"fingerprint": fingerprint, "tokens": [], "chunks": [], "snapshot": {}}
    kept.store.values["head"] = json.dumps(head).encode()
    with pytest.raises(DataError, match=f"the checkpoint was written in {written} version of Watersmeet"):
        kept.log.read_head(CASES["distinct"].plan.fingerprint)
