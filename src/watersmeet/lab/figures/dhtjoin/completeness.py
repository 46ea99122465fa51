"""Completeness measured: what share of the answers DHTJoin finds when windows do not fit in memory.

DHTJoin, extended version, section 5, whose equation (11) predicts it. The scenario is the analysis's own:
streams of a constant rate joined on one attribute of uniform values, spread evenly over the nodes, each of
which has room for a fixed number of tuples of each stream.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from watersmeet.lab.figures.figure import Claim, FigureResult
from watersmeet.lab.figures.registry import figure
from watersmeet.lab.figures.runners import Runner, run_rows
from watersmeet.lab.figures.svg_chart import Panel, Series
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.dhtjoin.lane_window import Shedding
from watersmeet.lab.overlay.dhtjoin.network import QueryArrival, TupleArrival, start_dhtjoin
from watersmeet.lab.overlay.dhtjoin.protocol import Settings
from watersmeet.lab.simulation import SECOND_US, equality, join_query
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.sizing.completeness import StreamDemand, completeness, partitions_needed
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Column, Expr, Input, Output, Query, Stream, range_us

BITS = 32
POLICIES: tuple[Shedding, ...] = ("newcomer", "random", "oldest", "least likely")
TARGET = 0.8  # the completeness for which equation (12) is asked how many nodes it takes
LARGER = 4  # how many times larger windows and memories are in a second run, in which randomness weighs less
SCARCE = 0.7  # memory is scarce where it holds no more of a window than this


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """One run: nodes, and the memory of each; None for enough."""

    nodes: int
    memory_tuples: int | None
    shedding: Shedding = "random"
    ways: int = 2
    tuples_per_s: float = 300.0
    window_s: float = 10.0
    windows: int = 3  # how many windows long it runs; the first only fills memory
    seed: int = 0

    @property
    def window_tuples(self) -> int:
        """W_i * lambda_i."""
        return round(self.window_s * self.tuples_per_s)

    def demands(self) -> list[StreamDemand]:
        """The scenario as equation (11) sees it."""
        return [StreamDemand(f"s{n}", self.window_tuples, self.memory_tuples) for n in range(self.ways)]


def count_answers(sizing: Sizing) -> int:
    """The answers found after the first window."""
    even = [(1 << BITS) * n // sizing.nodes for n in range(sizing.nodes)]
    settings = Settings(memory_tuples=sizing.memory_tuples, shedding=sizing.shedding)
    run = start_dhtjoin(StableRing(even, BITS), settings, seed=sizing.seed)
    query = _query(sizing)
    run.submit_at(QueryArrival(0, 0, "q", query), Statistics())
    # Two generators, so that the tuples are the same whatever the number of nodes.
    rng, where = random.Random(f"{sizing.seed} values"), random.Random(f"{sizing.seed} nodes")
    step_us = round(SECOND_US / sizing.tuples_per_s)
    end_us = round(sizing.windows * sizing.window_s * SECOND_US)
    for at_us in range(0, end_us, step_us):
        for item in query.inputs:
            # As many values as a window has tuples: one partner in each other stream, on average.
            values = {"k": rng.randrange(sizing.window_tuples)}
            node = where.randrange(sizing.nodes)
            run.insert_at(TupleArrival(at_us, node, item.stream.name, Tuple(at_us, values)))
    run.overlay.run()
    filled_us = sizing.window_s * SECOND_US
    return sum(answer_time >= filled_us for (answer_time,) in run.answers["q"])


def _query(sizing: Sizing) -> Query:
    window = range_us(round(sizing.window_s * SECOND_US))
    aliases = tuple(f"s{n}" for n in range(sizing.ways))
    return join_query(
        [Input(alias, Stream(alias, (Column("k", "bigint"),)), window) for alias in aliases],
        [equality(*((alias, "k") for alias in aliases))],
        [Output("answer_time", Expr("answer_time", uses_answer_time=True))],
    )


@figure("dhtjoin-completeness", "DHTJoin section 5: completeness measured, and equation (11)")
def figure_completeness(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """Two-way and three-way joins with memory for a part of their windows, over more and more nodes."""
    base = Sizing(nodes=1, memory_tuples=100, seed=seed)
    nodes: tuple[int, ...] = (5, 10, 15, 20, 25, 30, 35)
    if quick:
        base, nodes = Sizing(nodes=1, memory_tuples=40, tuples_per_s=100.0, windows=2, seed=seed), (5, 12, 20)
    panels, claims = [], []
    for ways in (2, 3):
        sizing = replace(base, ways=ways)
        needed = partitions_needed(sizing.demands(), TARGET)
        tasks: dict[str, list[Sizing]] = {
            policy: [replace(sizing, nodes=n, shedding=policy) for n in nodes] for policy in POLICIES
        }
        for name, size in (("as given", sizing), ("larger", _larger(sizing))):
            tasks[name] = [
                replace(size, memory_tuples=None),
                replace(size, nodes=needed, shedding="newcomer"),
            ]
        found = run_rows(runner, tasks, count_answers)
        (whole, sized), (whole_larger, sized_larger) = found["as given"], found["larger"]
        rows = {policy: [count / whole for count in found[policy]] for policy in POLICIES}
        predicted = [completeness(sizing.demands(), n) for n in nodes]
        lines = [Series("equation (11)", nodes, predicted)]
        lines += [Series(policy, nodes, row) for policy, row in rows.items()]
        panels.append(Panel(f"{ways}-way join", "nodes", "share of answers found", lines))
        scarce = [n * base.memory_tuples <= SCARCE * base.window_tuples for n in nodes if base.memory_tuples]
        claims += _completeness_claims(ways, rows, predicted, scarce)
        claims.append(_sizing_claim(ways, needed, sized / whole, sized_larger / whole_larger))
    parameters = asdict(base) | {"nodes": nodes, "ways": (2, 3), "policies": POLICIES}
    return FigureResult("dhtjoin-completeness", parameters, tuple(panels), tuple(claims))


def _completeness_claims(
    ways: int, rows: dict[Shedding, list[float]], predicted: Sequence[float], scarce: Sequence[bool]
) -> list[Claim]:
    """How equation (11) fares where memory is scarce; where it is not, an uneven load decides."""

    def gaps(policy: Shedding) -> list[float]:
        triples = zip(rows[policy], predicted, scarce, strict=True)
        return [share - guess for share, guess, counts in triples if counts]

    scope = f"memory for at most {SCARCE:.0%} of a window"
    misses = [abs(gap) for gap in gaps("newcomer")]
    above = [gap for policy in POLICIES[1:] for gap in gaps(policy)]
    return [
        Claim(
            f"{ways}-way, {scope}: equation (11) holds if arrivals that do not fit do not probe",
            max(misses) <= 0.06,
            {"measured": [round(share, 3) for share in rows["newcomer"]], "miss": round(max(misses), 3)},
        ),
        Claim(
            f"{ways}-way, {scope}: equation (11) is a lower bound if arrivals probe before anyone is shed",
            min(above) > 0,
            {policy: [round(share, 3) for share in rows[policy]] for policy in POLICIES[1:]},
            "an answer's last tuple need not be stored, so one factor of the product is missing",
        ),
    ]


def _larger(sizing: Sizing) -> Sizing:
    """The same with more tuples in a window, and as much more memory."""
    assert sizing.memory_tuples is not None
    return replace(
        sizing,
        memory_tuples=LARGER * sizing.memory_tuples,
        tuples_per_s=LARGER * sizing.tuples_per_s,
        windows=2,
    )


def _sizing_claim(ways: int, needed: int, found: float, found_larger: float) -> Claim:
    return Claim(
        f"{ways}-way: the nodes of equation (12) for a completeness of {TARGET} give it",
        abs(found - TARGET) <= 0.06,
        {
            "nodes": needed,
            "completeness": round(found, 3),
            f"with {LARGER} times the window and the memory": round(found_larger, 3),
        },
        "the analysis takes the load as even at all times; where memory nearly suffices, a node whose share "
        "is above the mean for a while drops tuples that others would have had room for; the gap closes as "
        "windows and memories grow",
    )
