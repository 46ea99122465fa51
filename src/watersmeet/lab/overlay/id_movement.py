"""Id movement: nodes change their identifiers to share the load (Karger and Ruhl, SPAA 2004).

A node compares itself with another, taken at random. If it carries less than a quarter of the other's load it
gives its own keys to its successor and takes a new identifier inside the other's arc, so that each of the two
is responsible for about half of what the other carried. A single key cannot be split.

    loads a 8 (keys x 5, y 3), b 1: b moves to just where x ends, takes x, and leaves y to a
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from watersmeet.lab.overlay.network import Overlay

UNEVEN = 4  # how many times heavier the other must be: 1/epsilon, at least 4 for the scheme to settle


def balance_ids(overlay: Overlay, load_by_key: Mapping[str, int], seed: int, probes: int = 4) -> int:
    """One round in which every node compares itself with some others; says how many moved.

    The loads are by key, as the responsible nodes know them.
    """
    rng = random.Random(seed)
    nodes = list(overlay.ring.nodes)
    keys: dict[int, list[tuple[int, int]]] = {node: [] for node in nodes}
    for key, load in load_by_key.items():
        keys[overlay.owner(key)].append((overlay.identifier(key), load))
    loads = {node: sum(load for _, load in kept) for node, kept in keys.items()}
    moved: dict[int, int] = {}
    touched: set[int] = set()
    for node in rng.sample(nodes, len(nodes)):
        for other in rng.sample(nodes, min(probes, len(nodes))):
            overlay.counters.traffic["balance"] += 1
            apart = not touched & {node, other, overlay.ring.successor(node)} and node != other
            if not apart or UNEVEN * loads[node] >= loads[other]:
                continue
            target = _halving_identifier(overlay, other, keys[other], loads[other])
            if target is not None:
                moved[node] = target
                touched |= {node, other, overlay.ring.successor(node)}
                break
    overlay.move_ids(moved)
    return len(moved)


def _halving_identifier(overlay: Overlay, heavy: int, keys: list[tuple[int, int]], load: int) -> int | None:
    """The identifier of the key that splits a node's load most evenly; None if no split helps."""
    span, start = 1 << overlay.ring.bits, overlay.ring.id_of(overlay.ring.predecessor(heavy))
    ordered = sorted(keys, key=lambda entry: (entry[0] - start) % span)
    best, found, before = load, None, 0
    for identifier, weight in ordered[:-1]:
        before += weight
        if max(before, load - before) < best and identifier != overlay.ring.id_of(heavy):
            best, found = max(before, load - before), identifier
    return found
