"""DISTINCT of answers that are let out before it is known when they end, against a naive twin."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.kernel import ANSWER_END, ANSWER_TS, POSITION, ChangeTracker, OpenValues, PersistedChunk
from watersmeet.kernel.columns import hashing
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.output import distinct as distinct_module
from watersmeet.kernel.output import open_values
from watersmeet.kernel.output.held_answers import AnswerStay
from watersmeet.query import BEGINNING, NEVER

Answer = tuple[int | None, int, int]  # its value, t, and when it ends


def appearances(answers: list[Answer]) -> Counter[tuple[int | None, int]]:
    """Each value, and the t at which it goes from absent to present."""
    found: Counter[tuple[int | None, int]] = Counter()
    until: dict[int | None, int] = {}
    for value, t, end in sorted(answers, key=lambda answer: answer[1:]):
        if until.get(value, BEGINNING) < t:
            found[value, t] += 1
        until[value] = max(end, until.get(value, end))
    return found


class Log:
    """What a state store has of a bucket's values."""

    def __init__(self) -> None:
        self.chunks: dict[tuple[str, int], PersistedChunk] = {}
        self._tracker = ChangeTracker()

    def restored(self, values: OpenValues) -> OpenValues:
        changes = self._tracker.changes(values.persisted())
        self.chunks |= {(one.section, one.number): one for one in changes.appended}
        for key in changes.expired:
            del self.chunks[key]
        return OpenValues(("v",)).restored(values.snapshot(), self.chunks.values())


def run(answers: list[Answer], watermarks: list[int], rng: random.Random) -> Counter[tuple[int | None, int]]:
    """Lets the answers be found in the step before which the watermark passes their t, or earlier."""
    stay, values, log = AnswerStay("held"), OpenValues(("v",)), Log()
    found: Counter[tuple[int | None, int]] = Counter()
    ends = np.array([end for _, _, end in answers])
    waiting = dict(enumerate(answers))
    for watermark in watermarks:

        def known(positions: Longs, now: int = watermark) -> Longs:
            return np.where(ends[positions] < now, ends[positions], NEVER)

        here = [n for n, (_, t, _) in waiting.items() if t < watermark or rng.random() < 0.1]
        given = [waiting.pop(n) for n in here]
        rows = {"v": [value for value, _, _ in given], ANSWER_TS: [t for _, t, _ in given]}
        columns = {name: pa.array(column, pa.int64()) for name, column in rows.items()}
        columns |= {ANSWER_END: pa.array([NEVER] * len(here)), f"a.{POSITION}": pa.array(here, pa.int64())}
        stay.buffer.add(pa.record_batch(columns))
        stay.settle({"a": known})
        said = list(stay.release(watermark))
        appeared = values.step(pa.concat_batches(said)) if said else None
        if appeared is not None:
            found.update(zip(appeared["v"].to_pylist(), appeared[ANSWER_TS].to_pylist(), strict=True))
        values = log.restored(values)
    return found


@pytest.mark.parametrize("collide", [False, True])
def test_a_value_appears_where_none_of_its_answers_is_valid(
    collide: bool, monkeypatch: pytest.MonkeyPatch, long_mode: bool
) -> None:
    monkeypatch.setattr(open_values, "_COMPACT_ROWS", 3)
    if collide:
        one_bit = lambda column: hashing.hash_column(column) & np.uint64(1)  # noqa: E731
        monkeypatch.setattr(distinct_module, "hash_column", one_bit)
    for seed in range(20 * (40 if long_mode else 1)):
        rng = random.Random(seed)
        drawn = [(rng.choice([None, 1, 2, 3, 4]), rng.randrange(100), rng.randint(1, 12)) for _ in range(60)]
        answers = [(value, t, t + duration) for value, t, duration in drawn]
        watermarks = [*sorted(rng.sample(range(1, 100), rng.randint(1, 20))), 200]
        found, expected = run(answers, watermarks, rng), appearances(answers)
        assert len(expected) > 10
        assert found == expected, seed
