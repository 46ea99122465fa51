"""The completeness a limited join tells is the completeness it has (after DHTJoin's section 5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.shedding import Workload, run

from watersmeet.kernel import Shed, StateLimit
from watersmeet.kernel import survival as survival_module
from watersmeet.kernel.survival import Ledger
from watersmeet.query import BEGINNING, UNBOUNDED, range_us, rows, tumble_us

SHORT = Workload(window_s=5, seconds=20, keys=200)
REGIMES = {
    "two streams": replace(SHORT, rates=(400, 400)),
    "two streams, 10:1": replace(SHORT, rates=(1000, 100)),
    "three streams": replace(SHORT, rates=(300, 300, 300)),
    "three streams, 1:4:8": replace(SHORT, rates=(50, 200, 400)),
    "four streams": replace(SHORT, rates=(200, 200, 200, 200)),
    "long batches": replace(SHORT, rates=(300, 300, 300), batch_s=4),
    "zipf": replace(SHORT, rates=(400, 400), keys=1000, zipf=0.8),
}


@pytest.mark.parametrize("regime", REGIMES)
def test_what_random_shedding_tells_is_what_is_found(regime: str) -> None:
    workload = REGIMES[regime]
    whole = run(workload)
    for share in (0.2, 0.5, 0.8):
        part = run(workload, StateLimit(int(share * whole.peak_bytes)))
        assert part.shed > 0 or share == 0.8
        assert part.peak_bytes <= share * whole.peak_bytes
        assert part.told == pytest.approx(part.answers / whole.answers, abs=0.05)


def test_oldest_first_tells_what_is_found_too() -> None:
    workload = REGIMES["three streams"]
    whole = run(workload)
    part = run(workload, StateLimit(int(0.4 * whole.peak_bytes), Shed.OLDEST))
    assert part.told == pytest.approx(part.answers / whole.answers, abs=0.05)


def test_least_finds_more_than_random_on_skewed_keys_and_never_tells_more_than_it_finds() -> None:
    workload = replace(SHORT, rates=(300, 300, 300), keys=1000, zipf=0.8)
    whole = run(workload)
    limit = int(0.3 * whole.peak_bytes)
    random, least = (run(workload, StateLimit(limit, shed)) for shed in (Shed.RANDOM, Shed.LEAST))
    assert least.answers > 2 * random.answers
    assert least.told <= least.answers / whole.answers + 0.02


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


def test_a_ledger_under_a_watermark_that_stands_still_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survival_module, "MAX_BINS", 8)
    ledger = Ledger.of(tumble_us(64))
    ledger.arrive(np.arange(1000))
    ledger.expire(BEGINNING)
    assert len(ledger.bins) <= 8
    assert ledger.between(np.array([0]), np.array([1024]))[0][0] == 1000


def test_ledgers_of_places_and_of_all_time() -> None:
    places = Ledger.of(rows(64))
    places.arrive(np.arange(200))
    places.newest_place = 199
    places.expire(5)
    assert sorted(places.bins) == list(range(136, 200))
    forever = Ledger.of(UNBOUNDED)
    forever.arrive(np.array([5, 10**15]))
    forever.expire(2 * 10**15)
    assert forever.between(np.array([0, 0]), np.array([1, 2]))[0].tolist() == [2, 2]
