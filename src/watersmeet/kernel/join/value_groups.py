"""Probing orders of their own for the heavy values of a head, where match rates differ by value.

After the rate partition of PMJoin (Zhou, Yan, Yu, Zhou, DASFAA 2006): values with different rates in the
streams deserve different plans. Here the values are those a sample of head tuples shows again and again, the
plan is the order in which their tuples probe, and all values of one order form a group. Every other value
stays in the rest, with the head's common order.

Guarantee: which tuples are in which group changes how many partial combinations are made, never the answers.
Nothing is split where it would not save a part of the head's probes, so equal rates cost only a look at the
samples that `probing` takes anyway.

    head a, others b and c. v: 10 tuples in b, none in c; w: none in b, 10 in c
    one order for both, b before c: 1 + 10 probes for a tuple with v, 1 with w; in groups 1 and 1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, find_values
from watersmeet.kernel.join.probing import DECAY, Classes, Probe, ProbingOrder
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning

Sequence = tuple[Probe, ...]


@dataclass
class _Sampled:
    """A value in the samples: how many tuples, and their matches by first probe."""

    tuples: float = 0.0
    matches: dict[Probe, float] = field(default_factory=dict)

    def fade(self) -> None:
        self.tuples *= DECAY
        self.matches = {probe: count * DECAY for probe, count in self.matches.items()}

    def fanouts(self) -> dict[Probe, float]:
        return {probe: count / self.tuples for probe, count in self.matches.items()}


@dataclass(frozen=True)
class _Split:
    """The values of a head that go by orders of their own: by class, hash in order, group."""

    cls: int
    hashes: Hashes
    groups: npt.NDArray[np.int32]
    sequences: tuple[Sequence, ...]


@dataclass(frozen=True)
class Group:
    """Head tuples that probe in one order; `is_rest` for those that the head's own rates are of."""

    arrivals: Arrivals
    sequence: Sequence
    is_rest: bool


class ValueGroups:
    """The heavy values of every head, learned from samples."""

    def __init__(self, order: ProbingOrder, tuning: Tuning = DEFAULT_TUNING) -> None:
        self._order = order
        self._tuning = tuning
        self._sampled: dict[tuple[str, int], dict[int, _Sampled]] = {}
        self._splits: dict[str, _Split] = {}
        self._tuples: dict[str, float] = {}  # sampled of each head, faded

    def learn(self, head: str, hashes: Mapping[int, Hashes], matches: Mapping[Probe, Longs]) -> None:
        """Takes a sample into account: the keys of some head tuples, and how many matches each had."""
        gains: dict[int, tuple[float, _Split]] = {}
        sample = next(iter(matches.values()))
        self._tuples[head] = DECAY * self._tuples.get(head, 0.0) + len(sample)
        for cls, column in hashes.items():
            sampled = self._sampled.setdefault((head, cls), {})
            _add_sample(sampled, column, matches, self._tuning.values_kept)
            if (found := self._split(head, cls, sampled)) is not None:
                gains[cls] = found
        self._splits.pop(head, None)
        if gains:
            self._splits[head] = max(gains.values(), key=lambda each: each[0])[1]

    def rest(self, head: str, hashes: Mapping[int, Hashes]) -> npt.NDArray[np.bool_] | None:
        """Which head tuples go by the head's common order; None if all do."""
        split = self._splits.get(head)
        return None if split is None else find_values(hashes[split.cls], split.hashes) < 0

    def groups(self, head: str, arrivals: Arrivals) -> Iterator[Group]:
        """The head tuples by the order in which they probe."""
        split, sequence = self._splits.get(head), self._order.sequence(head)
        if split is None:
            yield Group(arrivals, sequence, is_rest=True)
            return
        known = find_values(arrivals.hashes[split.cls], split.hashes)
        numbers = np.append(split.groups, np.int32(-1))[known]
        yield Group(arrivals.pick(numbers < 0), sequence, is_rest=True)
        for number, own in enumerate(split.sequences):
            yield Group(arrivals.pick(numbers == number), own, is_rest=False)

    def used_classes(self, alias: str) -> set[Classes]:
        """The class sets by which some group's order probes an input."""
        probes = [probe for split in self._splits.values() for own in split.sequences for probe in own]
        return {probe.classes for probe in probes if probe.alias == alias}

    def _split(self, head: str, cls: int, sampled: Mapping[int, _Sampled]) -> tuple[float, _Split] | None:
        """What the values of a class would save by orders of their own, and which these are."""
        common = self._order.sequence(head)
        least = self._tuning.least_gain * (1.0 + self._order.expected_probes(head, common))
        saved, groups = 0.0, dict[Sequence, list[int]]()
        for value, seen in sampled.items():
            if seen.tuples < self._tuning.least_sampled:
                continue
            fanouts = seen.fanouts()
            own = self._order.sequence(head, fanouts)
            gain = self._order.expected_probes(head, common, fanouts)
            gain -= self._order.expected_probes(head, own, fanouts)
            gain *= seen.tuples / self._tuples[head]
            if own != common and gain >= least:
                saved += gain
                groups.setdefault(own, []).append(value)
        if not groups:
            return None
        members = [(value, number) for number, values in enumerate(groups.values()) for value in values]
        members.sort()
        return saved, _Split(
            cls,
            np.array([value for value, _ in members], np.uint64),
            np.array([number for _, number in members], np.int32),
            tuple(groups),
        )


def _add_sample(
    sampled: dict[int, _Sampled], column: Hashes, matches: Mapping[Probe, Longs], values_kept: int
) -> None:
    """Adds a sample to the values known; one that is in it only once is not heavy."""
    for seen in sampled.values():
        seen.fade()
    values, where, counts = np.unique(column, return_inverse=True, return_counts=True)
    sums = {probe: np.bincount(where, found, len(values)) for probe, found in matches.items()}
    for number in np.flatnonzero(counts > 1).tolist():
        seen = sampled.setdefault(int(values[number]), _Sampled())
        seen.tuples += int(counts[number])
        for probe, found in sums.items():
            seen.matches[probe] = seen.matches.get(probe, 0.0) + float(found[number])
    for value in sorted(sampled, key=lambda one: sampled[one].tuples)[:-values_kept]:
        del sampled[value]
