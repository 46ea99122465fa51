"""What fetching a word from memory costs on this machine, by how much memory is in use.

    python benchmarks/far_fetches.py

Prints nanoseconds a fetch when each waits for the one before it, when none does, and when none does but the
loop has other work: a core looks some hundreds of instructions ahead, so the shorter a loop, the more of its
fetches are under way at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numba
import numpy as np

FETCHES = 400_000
WORDS_PER_LINE = 8


@numba.njit
def one_after_another(memory, where):  # type: ignore[no-untyped-def]
    place = 0
    for _ in range(len(where)):
        place = memory[place]
    return place


@numba.njit
def all_at_once(memory, where):  # type: ignore[no-untyped-def]
    total = 0
    for place in where:
        total += memory[place]
    return total


@numba.njit
def with_other_work(memory, where):  # type: ignore[no-untyped-def]
    """As a join that tests and writes five columns for each word it fetches."""
    found = np.empty((5, len(where)), np.int64)
    count = 0
    for number in range(len(where)):
        word, other = memory[where[number]], where[-number]
        found[0, count] = number
        found[1, count] = where[number]
        found[2, count] = word & 0xFFFFFFFF
        found[3, count] = word >> 32
        found[4, count] = (word >> 7) + other
        count += (word != other) & (word + 11 > other) & ((word ^ (other << 32)) >> 32 != 1)
    return count


def nanoseconds(loop: Callable[..., int], memory: np.ndarray, where: np.ndarray) -> float:
    """The best of five."""
    times = []
    for _ in range(6):
        start = time.perf_counter()
        loop(memory, where)
        times.append(time.perf_counter() - start)
    return 1e9 * min(times[1:]) / len(where)


def main() -> None:
    random = np.random.default_rng(0)
    for megabytes in (0.5, 4, 16, 64, 128):
        lines = WORDS_PER_LINE * random.permutation(int(megabytes * 2**20) // (8 * WORDS_PER_LINE))
        memory = np.zeros(len(lines) * WORDS_PER_LINE, np.int64)
        memory[lines] = np.roll(lines, 1)
        where = random.choice(lines, FETCHES)
        costs = [
            nanoseconds(loop, memory, where) for loop in (one_after_another, all_at_once, with_other_work)
        ]
        waits, alone, busy = costs
        print(
            f"{megabytes:5} MB: {waits:5.1f} ns waiting, {alone:4.1f} ns not, {busy:4.1f} ns with other work"
        )


if __name__ == "__main__":
    main()
