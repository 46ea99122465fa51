"""RJoin's workload (EDBT 2008, section 8): skewed tuples and random chain joins, by parameters and a seed.

A tuple's relation, and each of its values, is drawn from a Zipf distribution. A k-way query joins k different
relations in a chain, `R.A = S.B and S.C = J.F and ...`, relations and attributes chosen at random.

A reading of ours: which values are frequent differs from attribute to attribute ("per attribute"). Were the
same values frequent in all ("shared"), 1000 tuples would give each 4-way query thousands of answers, and
20,000 queries tens of millions of rewritten ones: far above the loads that the paper's figures report.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from watersmeet.errors import ConfigurationError
from watersmeet.lab.simulation import ValueOrder, Zipf, equality, join_query
from watersmeet.query import (
    UNBOUNDED,
    Column,
    Input,
    Output,
    Query,
    Stream,
    Window,
    column_expr,
    range_us,
)

TICK_US = 1000  # between two tuples: the unit of the paper's time windows


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The parameters of the paper's experiments, with its defaults."""

    relations: int = 10
    attributes: int = 10
    values: int = 100
    theta: float = 0.9  # of both Zipf distributions
    relation_theta: float | None = None  # of the relations alone, where it is to differ; 0: all as frequent
    ways: int = 4
    window_ticks: int | None = None  # W; None: no windows
    value_order: ValueOrder = "per attribute"
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.ways <= self.relations:
            raise ConfigurationError(f"a chain joins 2 to {self.relations} relations, not {self.ways}")

    @property
    def window(self) -> Window:
        """The paper's window of W ticks: |start - pubT| + 1 <= W."""
        if self.window_ticks is None:
            return UNBOUNDED
        return range_us(max(1, (self.window_ticks - 1) * TICK_US))

    def streams(self) -> tuple[Stream, ...]:
        columns = tuple(Column(f"A{n}", "bigint") for n in range(self.attributes))
        return tuple(Stream(f"R{n}", columns) for n in range(self.relations))

    def queries(self, count: int) -> Iterator[Query]:
        """Random chain joins."""
        rng = random.Random(f"queries {self.seed}")
        streams = self.streams()
        for _ in range(count):
            yield self._query(rng, streams)

    def tuples(self, count: int, phase: str = "measured") -> Iterator[tuple[Stream, tuple[int, ...]]]:
        """Random tuples; each phase is a stream of its own from the same distributions."""
        rng = random.Random(f"tuples {phase} {self.seed}")
        streams = self.streams()
        relation_theta = self.theta if self.relation_theta is None else self.relation_theta
        relations, values = Zipf(self.relations, relation_theta), Zipf(self.values, self.theta)
        orders = self._orders()
        for _ in range(count):
            relation = relations.draw(rng)
            yield streams[relation], tuple([order[values.draw(rng)] for order in orders[relation]])

    def _orders(self) -> list[list[list[int]]]:
        """For each attribute of each relation its values, the most frequent first."""
        rng = random.Random(f"orders {self.seed}")
        orders = []
        for _ in range(self.relations):
            of_relation = []
            for _ in range(self.attributes):
                order = list(range(self.values))
                if self.value_order == "per attribute":
                    rng.shuffle(order)
                of_relation.append(order)
            orders.append(of_relation)
        return orders

    def _query(self, rng: random.Random, streams: tuple[Stream, ...]) -> Query:
        chain = rng.sample(streams, self.ways)
        classes: list[list[tuple[str, str]]] = []
        incoming = None  # the attribute by which the chain came to the relation
        for left, right in pairwise(chain):
            outgoing, arriving = rng.choice(left.columns).name, rng.choice(right.columns).name
            if outgoing != incoming:
                classes.append([(left.name, outgoing)])
            classes[-1].append((right.name, arriving))
            incoming = arriving
        window = self.window
        return join_query(
            [Input(stream.name, stream, window) for stream in chain],
            [equality(*members) for members in classes],
            [
                Output(f"{end.name}_A0", column_expr(end.name, "A0", "bigint"))
                for end in (chain[0], chain[-1])
            ],
        )
