"""The completeness that a limited join estimates is the completeness it has (after DHTJoin's section 5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.shedding import Workload, run

from watersmeet.kernel import TS, BatchInput, JoinBucket, Punctuation, Shed, StateLimit, Tuning, plan_bucket
from watersmeet.kernel.shedding.survival import Ledger
from watersmeet.query import BEGINNING, UNBOUNDED, Column, Stream, range_us, rows, tumble_us
from watersmeet.sql import bind_query

SHORT = Workload(window_s=5, seconds=12, keys=200, batch_s=1)
REGIMES = {
    "two streams": replace(SHORT, rates=(400, 400)),
    "two streams, 10:1": replace(SHORT, rates=(1000, 100)),
    "three streams": replace(SHORT, rates=(300, 300, 300)),
    "three streams, 1:4:8": replace(SHORT, rates=(50, 200, 400)),
    "four streams": replace(SHORT, rates=(200, 200, 200, 200)),
    "long batches": replace(SHORT, rates=(300, 300, 300), seconds=20, batch_s=4),
    "zipf": replace(SHORT, rates=(400, 400), keys=1000, zipf=0.8),
}


SHOWN_ALWAYS = ("two streams, 10:1", "three streams, 1:4:8", "long batches", "zipf")


@pytest.mark.parametrize(
    "regime",
    [name if name in SHOWN_ALWAYS else pytest.param(name, marks=pytest.mark.variant) for name in REGIMES],
)
def test_what_random_shedding_estimates_is_what_is_found(regime: str) -> None:
    workload = REGIMES[regime]
    whole = run(workload)
    for share in (0.2, 0.5, 0.8):
        part = run(workload, StateLimit(int(share * whole.peak_bytes)))
        assert part.shed > 0 or share == 0.8
        assert part.peak_bytes <= share * whole.peak_bytes
        assert part.estimated == pytest.approx(part.answers / whole.answers, abs=0.05)


def test_oldest_first_estimates_what_is_found_too() -> None:
    workload = REGIMES["three streams"]
    whole = run(workload)
    part = run(workload, StateLimit(int(0.4 * whole.peak_bytes), Shed.OLDEST))
    assert part.estimated == pytest.approx(part.answers / whole.answers, abs=0.05)


@pytest.mark.parametrize(
    ("zipf", "share", "times"),
    [
        pytest.param(0.0, 0.4, 1.0, marks=pytest.mark.variant),
        (0.5, 0.15, 3.0),
        pytest.param(0.7, 0.3, 2.0, marks=pytest.mark.variant),
    ],
)
def test_least_finds_more_than_random_on_skewed_keys_and_estimates_what_it_finds(
    zipf: float, share: float, times: float
) -> None:
    estimated, found = [], []
    for seed in range(3):  # a short stream is estimated within five points on the average, not each time
        workload = replace(SHORT, rates=(250, 250, 250), keys=1000, zipf=zipf, seed=seed)
        whole = run(workload)
        limit = int(share * whole.peak_bytes)
        random, least = (run(workload, StateLimit(limit, shed)) for shed in (Shed.RANDOM, Shed.LEAST))
        assert least.answers > times * random.answers
        estimated.append(least.estimated)
        found.append(least.answers / whole.answers)
    assert np.mean(estimated) == pytest.approx(np.mean(found), abs=0.05)


@pytest.mark.variant  # the one before shows it for one attribute
def test_least_estimates_what_it_finds_of_a_chain_over_two_attributes() -> None:
    """No formula by rates and keys is behind it: only the inclusion probabilities of each answer's tuples."""
    whole, part = (run_chain(limit) for limit in (None, StateLimit(60_000, Shed.LEAST)))
    found = part[0] / whole[0]
    assert 0.1 < found < 0.9
    assert part[0] / (part[0] + part[1]) == pytest.approx(found, abs=0.05)


def run_chain(limit: StateLimit | None) -> tuple[int, float]:
    """Answers found and answers estimated as missed by a.x = b.x, b.y = c.y."""
    columns = (Column("x", "bigint"), Column("y", "bigint"), Column("ts", "timestamp"))
    names = ("a", "b", "c")
    froms = ", ".join(f"{name} [RANGE 5 SECONDS]" for name in names)
    query = bind_query(
        f"SELECT a.y AS first, c.x AS last FROM {froms} WHERE a.x = b.x AND b.y = c.y",
        [Stream(name, columns, "ts") for name in names],
    )
    bucket = JoinBucket(plan_bucket(query, limit))
    drawn, found, missed = np.random.default_rng(3), 0, 0.0
    for number in range(40):
        ts = pa.array(number * 500_000 + np.sort(drawn.integers(0, 500_000, 150)))
        # Some values of x and y are far more frequent than the others.
        keys = {axis: pa.array((drawn.random(150) ** 2 * 120).astype(np.int64)) for axis in "xy"}
        batch = {
            name: pa.record_batch({TS: ts, **keys, "__key0": keys["x"], "__key1": keys["y"]})
            for name in names
        }
        marks = Punctuation(dict.fromkeys(names, int(ts[-1].as_py())))
        found += sum(table.num_rows for table in bucket.step(BatchInput(batch, marks)))
        missed += bucket.counts.missed
    return found, missed


def test_a_ledger_counts_what_came_and_went_between_two_times() -> None:
    ledger = Ledger.of(range_us(640))  # bins of ten
    ledger.arrive(np.arange(0, 100))
    ledger.shed(np.arange(0, 50))
    came, went = ledger.between(np.array([0, 20, 45, 90]), np.array([100, 40, 55, 1000]))
    assert came.tolist() == [100, 20, 10, 10]
    assert went.tolist() == [50, 20, 5, 0]
    ledger.expire(640 + 30)
    assert ledger.between(np.array([0]), np.array([100]))[0][0] == 70
    assert Ledger.restore(ledger.window, ledger.snapshot()) == ledger


def test_a_ledger_under_a_watermark_that_stands_still_stays_small() -> None:
    ledger = Ledger.of(tumble_us(64), Tuning(max_bins=8))
    ledger.arrive(np.arange(1000))
    ledger.expire(BEGINNING)
    assert len(ledger.bins) <= 8
    assert ledger.between(np.array([0]), np.array([1024]))[0][0] == 1000


def test_ledgers_of_row_positions_and_of_all_time() -> None:
    positions = Ledger.of(rows(64))
    positions.arrive(np.arange(200))
    positions.newest_position = 199
    positions.expire(5)
    assert sorted(positions.bins) == list(range(136, 200))
    forever = Ledger.of(UNBOUNDED)
    forever.arrive(np.array([5, 10**15]))
    forever.expire(2 * 10**15)
    assert forever.between(np.array([0, 0]), np.array([1, 2]))[0].tolist() == [2, 2]
