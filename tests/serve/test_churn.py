"""Queries are submitted, replaced, dropped, fail and are resumed for long: the folder does not grow."""

from __future__ import annotations

import random

import pytest

from tests.serve.fake_engine import FakeEngine
from tests.serve.registry.dataflows import CHAIN, PAIR
from tests.serve.serving import replies, serve
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import RECORD, require_record
from watersmeet.serve.registry.requests import REPLIES, Drop, Request, Resume, Submit, send
from watersmeet.spark.multiquery.culprits import Blame

pytestmark = pytest.mark.usefixtures("hurry")

ROUNDS, MOST = 240, 8


def draw_request(rng: random.Random, folder: RegistryFolder, number: int) -> Request:
    record = require_record(folder)
    names, failed = list(record.staying), list(record.failed)
    sql = rng.choice([CHAIN, PAIR.format(rng.randrange(5)), PAIR.format(f"a.v AND a.v + {number % 7} = b.v")])
    if failed and rng.random() < 0.4:
        return Resume((rng.choice(failed),))
    if len(names) >= MOST or (names and rng.random() < 0.3):
        return Drop((rng.choice(names),))
    if names and rng.random() < 0.3:
        return Submit(((rng.choice(names), sql),), replace=True)
    kind = "bad" if rng.random() < 0.2 else "good"
    return Submit(((f"{kind}{number}", sql),))


def test_a_folder_holds_as_much_after_hundreds_of_changes_as_before(folder: RegistryFolder) -> None:
    rng = random.Random(7)
    engine = FakeEngine(is_busy=False, rounds=2)
    engine.blamed = {f"bad{number}": Blame("no number") for number in range(ROUNDS)}
    sizes: list[tuple[int, int]] = []

    def churn(number: int) -> None:
        send(folder, draw_request(rng, folder, number))
        engine.failing_keys = {f"(s1.v + {number // 20 % 7})"} if number % 20 < 3 else set()
        if number % 10 == 0:  # clients read their replies
            for request in replies(folder):
                folder.remove(f"{REPLIES}/{request}.json")
            files = [path for path in folder.path.rglob("*") if path.is_file()]
            sizes.append((len(files), (folder.path / RECORD).stat().st_size))

    changes = serve(folder, engine, ROUNDS, churn)
    assert len(changes) > 50
    assert engine.trials > 3
    assert engine.commits > ROUNDS / 4, "batches go on ending"
    third = len(sizes) // 3
    for which, beside in ((0, 3), (1, 2000)):
        middle = max(size[which] for size in sizes[third : 2 * third])
        assert max(size[which] for size in sizes[2 * third :]) <= 1.2 * middle + beside
