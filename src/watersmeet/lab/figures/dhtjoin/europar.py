"""The figures of DHTJoin's first paper (Euro-Par 2008, section 4): traffic, and dissemination by gossip.

Four relations of ten attributes; queries are disseminated by gossip with the optimisation of section 3.3
(m_opt), whose messages count as DHTJoin's traffic. Queries join on one attribute, as section 3.1 has them.

Readings of ours: 30 tuples a second are those of all relations together; where the number of joins does not
vary it is one; `europar-3` runs at 10 tuples a second, as four-way joins of skewed values would have
thousands of answers a tuple at 30. Gossip is shown on full rings, where m = log2 N is exact; the claims say
what rings of random identifiers give.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from watersmeet.lab.figures.dhtjoin.traffic import (
    Traffic,
    grows,
    query_rates,
    traffic_figure,
    tuple_rates,
    vary,
)
from watersmeet.lab.figures.dhtjoin.workload import Workload
from watersmeet.lab.figures.figure import Claim, FigureResult
from watersmeet.lab.figures.registry import figure
from watersmeet.lab.figures.runners import Runner, run_rows
from watersmeet.lab.figures.svg_chart import Panel, Series
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.dhtjoin.dissemination import FANOUTS, Fanout, spread_by_gossip

FULL_WORKLOAD = Workload(relations=4, joins=1)
QUICK_WORKLOAD = Workload(relations=4, joins=1, nodes=128, duration_s=60)


def _workload(quick: bool, seed: int) -> Workload:
    return replace(QUICK_WORKLOAD if quick else FULL_WORKLOAD, seed=seed)


@figure("europar-1", "DHTJoin (Euro-Par) Figure 1: network traffic by the tuples' arrival rate")
def figure_1(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """More tuples mean more messages in RJoin; in DHTJoin only those that some query requires."""
    rates = tuple_rates(quick)
    tasks = vary(_workload(quick, seed), "tuples_per_s", rates, by_gossip=True)

    def claims(measured: Sequence[Traffic]) -> list[Claim]:
        slope = [
            (after - before) / (rates[-1] - rates[0])
            for before, after in (
                (measured[0].rjoin_total, measured[-1].rjoin_total),
                (measured[0].dhtjoin_total, measured[-1].dhtjoin_total),
            )
        ]
        return [
            grows(
                "RJoin's traffic grows with the tuples' arrival rate", [one.rjoin_total for one in measured]
            ),
            Claim(
                "a high arrival rate does not mean as much more indexing in DHTJoin",
                slope[1] < slope[0] / 2,
                {"RJoin / DHTJoin, messages a tuple more": round(slope[0] / slope[1], 2)},
            ),
        ]

    return traffic_figure("europar-1", tasks, rates, "tuples a second", runner, claims)


@figure("europar-2", "DHTJoin (Euro-Par) Figure 2: network traffic by the queries' arrival rate")
def figure_2(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """More queries mean more rewriting in RJoin; in DHTJoin only new attributes cost."""
    rates = query_rates(quick)
    tasks = vary(_workload(quick, seed), "queries_per_s", rates, by_gossip=True)

    def claims(measured: Sequence[Traffic]) -> list[Claim]:
        return [grows("RJoin rewrites more as more queries arrive", [one.rewriting for one in measured])]

    return traffic_figure("europar-2", tasks, rates, "queries a second", runner, claims)


@figure("europar-3", "DHTJoin (Euro-Par) Figure 3: network traffic by the number of joins")
def figure_3(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """More joins mean more rewriting in RJoin, and more relations to index in DHTJoin."""
    joins = (1, 2, 3)
    tasks = vary(replace(_workload(quick, seed), tuples_per_s=10.0), "joins", joins, by_gossip=True)

    def claims(measured: Sequence[Traffic]) -> list[Claim]:
        return [
            grows("more joins need more traffic: DHTJoin", [one.dhtjoin_total for one in measured]),
            grows("more joins need more traffic: RJoin's rewriting", [one.rewriting for one in measured]),
        ]

    return traffic_figure("europar-3", tasks, joins, "joins a query", runner, claims)


@dataclass(frozen=True)
class GossipTask:
    """A dissemination from a random node: on a full ring of 2^bits nodes, or one of random identifiers."""

    bits: int
    fanout: Fanout
    full: bool = True
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class GossipResult:
    """The course of a dissemination, and the hops of the longest and the mean lookup on the same ring."""

    not_reached: tuple[int, ...]  # after 0, 1, 2, ... hops
    hops: int
    hit_ratio: float
    redundant_per_node: float
    longest_lookup: int
    mean_lookup: float


def run_gossip(task: GossipTask) -> GossipResult:
    """Disseminate once, and look up some keys for comparison."""
    size = 1 << task.bits
    ring = StableRing(range(size), task.bits) if task.full else StableRing.of(size, name=f"seed {task.seed}")
    rng = random.Random(f"{task.seed} gossip")
    spread = spread_by_gossip(ring, rng.randrange(size), task.fanout, rng)
    lookups = [len(ring.path(rng.randrange(size), rng.randrange(1 << ring.bits))) for _ in range(500)]
    return GossipResult(
        not_reached=tuple(spread.not_reached(ring.nodes)),
        hops=spread.hops,
        hit_ratio=spread.hit_ratio(ring.nodes),
        redundant_per_node=spread.redundant / size,
        longest_lookup=max(lookups),
        mean_lookup=sum(lookups) / len(lookups),
    )


def _sizes(quick: bool) -> tuple[int, ...]:
    return (4, 6, 8) if quick else (4, 6, 8, 10, 12)


@figure("europar-4", "DHTJoin (Euro-Par) Figure 4: progress of a dissemination by gossip")
def figure_4(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """The nodes not reached yet, hop by hop, by fanout."""
    bits = 8 if quick else 10
    tasks = [GossipTask(bits, fanout, seed=seed) for fanout in FANOUTS]
    tasks += [GossipTask(bits, fanout, full=False, seed=seed) for fanout in FANOUTS]
    results = runner(tasks, run_gossip)
    shown = dict(zip(FANOUTS, results, strict=False))
    claims = (
        Claim(
            "every node is reached (hit ratio 100%), whatever the fanout and the ring",
            all(one.hit_ratio == 1 for one in results),
            {"hit ratios": [one.hit_ratio for one in results]},
        ),
        Claim(
            "with the whole finger table it takes log2 N hops at most",
            shown["m"].hops <= bits,
            {"hops": shown["m"].hops, "log2 N": bits},
        ),
        Claim(
            "the optimisation does not change the progress",
            shown["m"].not_reached == shown["m_opt"].not_reached,
            {"m": shown["m"].not_reached, "m_opt": shown["m_opt"].not_reached},
        ),
    )
    lines = {
        fanout: Series(f"fanout {fanout}", range(len(one.not_reached)), one.not_reached)
        for fanout, one in shown.items()
    }
    slow = lines.pop("2")
    panels = (
        Panel("progress over fingers", "hops", "nodes not reached", list(lines.values())),
        Panel("progress along the ring", "hops", "nodes not reached", [slow]),
    )
    return FigureResult("europar-4", {"nodes": 1 << bits, "seed": seed}, panels, claims)


@figure("europar-5", "DHTJoin (Euro-Par) Figure 5: speed of dissemination by gossip")
def figure_5(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """Hops until the last node is reached, over ring sizes, beside those of indexing a tuple."""
    sizes = _sizes(quick)
    tasks = {f: [GossipTask(bits, f, seed=seed) for bits in sizes] for f in FANOUTS}
    rows = run_rows(runner, tasks, run_gossip)
    nodes = [1 << bits for bits in sizes]
    hops = {fanout: [one.hops for one in row] for fanout, row in rows.items()}
    lookups = [one.longest_lookup for one in rows["m"]]
    claims = (
        Claim(
            "the higher the fanout, the faster",
            all(a >= b >= c for a, b, c in zip(hops["2"], hops["m/2"], hops["m"], strict=True)),
            hops,
        ),
        Claim(
            "with fanout m a query is disseminated as fast as a tuple is indexed",
            all(mine <= lookup for mine, lookup in zip(hops["m"], lookups, strict=True)),
            {"m": hops["m"], "longest lookup": lookups},
        ),
        Claim("m_opt is as fast as m", hops["m_opt"] == hops["m"], {"m": hops["m"], "m_opt": hops["m_opt"]}),
        Claim("fanout 2 takes N/2 hops", hops["2"] == [size // 2 for size in nodes], hops["2"]),
    )
    lines = [Series(f"fanout {fanout}", nodes, row) for fanout, row in hops.items()]
    lines += [
        Series("tuple, longest lookup", nodes, lookups),
        Series("tuple, mean lookup", nodes, [one.mean_lookup for one in rows["m"]]),
    ]
    panel = Panel("speed of dissemination", "nodes", "hops", lines, log_x=True, log_y=True)
    return FigureResult("europar-5", {"nodes": nodes, "seed": seed}, (panel,), claims)


@figure("europar-6", "DHTJoin (Euro-Par) Figure 6: message overhead of dissemination by gossip")
def figure_6(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """Redundant messages a node, over ring sizes."""
    sizes = _sizes(quick)
    tasks = {
        (full, f): [GossipTask(bits, f, full, seed) for bits in sizes]
        for full in (True, False)
        for f in FANOUTS
    }
    found = run_rows(runner, tasks, run_gossip)
    rows = {key: [one.redundant_per_node for one in row] for key, row in found.items()}
    nodes = [1 << bits for bits in sizes]
    halves = rows[True, "m_opt"][-1] / rows[True, "m"][-1]
    scattered = rows[False, "m_opt"][-1] / rows[False, "m"][-1]
    claims = (
        Claim(
            "m_opt halves the overhead of m, to about log2(N) / 2 a node",
            abs(halves - 0.5) <= 0.05 and abs(rows[True, "m_opt"][-1] / (sizes[-1] / 2) - 1) <= 0.2,
            {"m_opt / m": round(halves, 3), "m_opt": round(rows[True, "m_opt"][-1], 3), "log2 N": sizes[-1]},
            f"on a ring of random identifiers, where fingers coincide less, it is {scattered:.2f} of m's",
        ),
        Claim(
            "fanout 2 has at most two redundant messages in all",
            all(share * size <= 2 for share, size in zip(rows[True, "2"], nodes, strict=True)),
            [round(share * size) for share, size in zip(rows[True, "2"], nodes, strict=True)],
        ),
        Claim(
            "the higher the fanout, the higher the overhead",
            rows[True, "2"][-1] < rows[True, "m/2"][-1] < rows[True, "m"][-1],
            {f: round(rows[True, f][-1], 3) for f in FANOUTS},
        ),
    )
    panels = [
        Panel(
            "full ring" if full else "random identifiers",
            "nodes",
            "redundant messages a node",
            [Series(f"fanout {f}", nodes, rows[full, f]) for f in FANOUTS],
            log_x=True,
        )
        for full in (True, False)
    ]
    parameters = {"nodes": nodes, "m": [math.log2(size) for size in nodes], "seed": seed}
    return FigureResult("europar-6", parameters, tuple(panels), claims)
