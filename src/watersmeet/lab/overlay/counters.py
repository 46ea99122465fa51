"""Counters of an overlay: what each node did and holds, and the hops of each kind of message."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from watersmeet.lab.overlay.chord.ring import Counts


@dataclass
class Counters:
    """Counts by node number; `traffic` is the hops of each kind of message."""

    size: int
    created: Counts = field(init=False)
    routed: Counts = field(init=False)
    processing: Counts = field(init=False)  # the papers' query-processing load
    storage: Counts = field(init=False)  # items held now
    stored: Counts = field(init=False)  # items ever stored
    traffic: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    alone: Counter[str] | None = None  # `traffic` if nothing shared a message or a way; None: not counted

    def __post_init__(self) -> None:
        for name in ("created", "routed", "processing", "storage", "stored"):
            setattr(self, name, np.zeros(self.size, np.int64))

    def grow(self, size: int) -> None:
        """Makes room for nodes that joined."""
        for name in ("created", "routed", "processing", "storage", "stored"):
            old = getattr(self, name)
            if size > len(old):
                setattr(self, name, np.concatenate([old, np.zeros(size - len(old), np.int64)]))
        self.size = max(size, self.size)

    def reset(self) -> None:
        """Starts to count anew; items held stay counted."""
        for counts in (self.created, self.routed, self.processing, self.stored):
            counts[:] = 0
        self.traffic.clear()
        self.lost.clear()
        if self.alone is not None:
            self.alone.clear()

    def keep(self, node: int, items: int = 1) -> None:
        self.storage[node] += items
        if items > 0:
            self.stored[node] += items

    @property
    def sent(self) -> Counts:
        """Messages each node sent, its own and others'."""
        return self.created + self.routed
