"""The figures of DHTJoin's extended version (section 6), and completeness measured against its equation (11).

Network traffic is counted in hops, every message from one node to another, without those of answers, the same
for both methods. `dhtjoin-4a` to `4c` run RJoin and DHTJoin on the same tuples and queries and insist that
both find equally many answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from watersmeet.lab.figures.chart import Panel, Series
from watersmeet.lab.figures.registry import Claim, FigureResult, Runner, figure
from watersmeet.lab.overlay.dhtjoin.coverage import Churn, run_churn
from watersmeet.lab.overlay.dhtjoin.messages import IndexPartial
from watersmeet.lab.overlay.dhtjoin.outage import Outage, run_outage
from watersmeet.lab.overlay.dhtjoin.sizing import Sizing, count_answers
from watersmeet.lab.overlay.dhtjoin.traffic import Traffic, TrafficTask, measure_traffic
from watersmeet.lab.overlay.dhtjoin.window import Shedding
from watersmeet.lab.overlay.dhtjoin.workload import Workload
from watersmeet.plan.sizing.completeness import completeness, partitions_needed

QUICK_WORKLOAD = Workload(nodes=128, duration_s=60)
FULL_WORKLOAD = Workload()

POLICIES: tuple[Shedding, ...] = ("newcomer", "random", "oldest", "least likely")
PARTIAL = IndexPartial.kind
TARGET = 0.8  # the completeness for which equation (12) is asked how many nodes it takes
LARGER = 4  # how many times larger windows and memories are where the same is tried with less chance in it
SCARCE = 0.7  # memory is scarce where it holds no more of a window than this


def traffic_figure(
    name: str,
    tasks: Sequence[TrafficTask],
    x: Sequence[float],
    x_label: str,
    runner: Runner,
    claims: Callable[[Sequence[Traffic]], Sequence[Claim]],
) -> FigureResult:
    """Both methods' traffic over one parameter, and what DHTJoin's was for."""
    measured = runner(tasks, measure_traffic)
    ratios = [one.rjoin_total / one.dhtjoin_total for one in measured]
    below = Claim(
        "DHTJoin's traffic is below RJoin's at every point",
        all(ratio > 1 for ratio in ratios),
        {"RJoin / DHTJoin": [round(ratio, 2) for ratio in ratios]},
        "" if min(ratios) > 1 else "partial results outgrow what is saved on tuples no query needs",
    )
    kinds = sorted({kind for one in measured for kind in one.dhtjoin})
    panels = (
        Panel(
            "network traffic",
            x_label,
            "messages",
            [
                Series("RJoin", x, [one.rjoin_total for one in measured]),
                Series("DHTJoin", x, [one.dhtjoin_total for one in measured]),
            ],
        ),
        Panel(
            "DHTJoin by purpose",
            x_label,
            "messages",
            [Series(kind, x, [one.dhtjoin.get(kind, 0) for one in measured]) for kind in kinds],
        ),
    )
    parameters: dict[str, Any] = asdict(tasks[0].workload) | {
        "varied": {"by": x_label, "over": list(x)},
        "queries": [one.queries for one in measured],
        "answers": [one.answers for one in measured],
    }
    return FigureResult(name, parameters, panels, (below, *claims(measured)))


def grows(text: str, y: Sequence[float], why: str = "") -> Claim:
    """That a line ends higher than it begins and never falls by more than a twentieth."""
    holds = y[-1] > y[0] and all(after >= 0.95 * before for before, after in pairwise(y))
    return Claim(text, holds, [round(value, 4) for value in y], "" if holds else why)


@figure("dhtjoin-4a", "DHTJoin Figure 4(a): network traffic by the tuples' arrival rate")
def figure_4a(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """Type-1 queries; more tuples mean more messages, far fewer in DHTJoin."""
    rates = (10.0, 20.0, 30.0) if quick else (10.0, 20.0, 30.0, 40.0, 50.0)
    base = replace(QUICK_WORKLOAD if quick else FULL_WORKLOAD, seed=seed)
    tasks = [TrafficTask(replace(base, tuples_per_s=rate)) for rate in rates]

    def claims(measured: Sequence[Traffic]) -> list[Claim]:
        return [
            grows("both grow with the tuples' arrival rate: RJoin", [one.rjoin_total for one in measured]),
            grows(
                "both grow with the tuples' arrival rate: DHTJoin", [one.dhtjoin_total for one in measured]
            ),
        ]

    return traffic_figure("dhtjoin-4a", tasks, rates, "tuples a second", runner, claims)


@figure("dhtjoin-4b", "DHTJoin Figure 4(b): network traffic by the queries' arrival rate")
def figure_4b(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """Type-1 queries; RJoin rewrites more, DHTJoin indexes by attributes it has not indexed by yet."""
    rates = (0.02, 0.06, 0.1) if quick else (0.02, 0.04, 0.06, 0.08, 0.1)
    base = replace(QUICK_WORKLOAD if quick else FULL_WORKLOAD, seed=seed)
    tasks = [TrafficTask(replace(base, queries_per_s=rate)) for rate in rates]

    def claims(measured: Sequence[Traffic]) -> list[Claim]:
        rewriting = [one.rjoin_total - one.rjoin.get("tuple", 0) for one in measured]
        return [
            grows("RJoin rewrites more as more queries arrive", rewriting),
            grows(
                "DHTJoin's traffic grows as queries bring new attributes",
                [one.dhtjoin_total for one in measured],
            ),
        ]

    return traffic_figure("dhtjoin-4b", tasks, rates, "queries a second", runner, claims)


@figure("dhtjoin-4c", "DHTJoin Figure 4(c): network traffic by the number of joins")
def figure_4c(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """Type-2 queries: chains over different attributes, with partial results on their way.

    What the paper says of them fits values of which each attribute has frequent ones of its own, as RJoin's
    workload has them here; where all attributes share them, every join multiplies the partial results.
    """
    joins = (1, 2, 3) if quick else (1, 2, 3, 4, 5)
    base = replace(QUICK_WORKLOAD if quick else FULL_WORKLOAD, seed=seed, query_type=2)
    shared = [TrafficTask(replace(base, joins=count)) for count in joins]
    tasks = [TrafficTask(replace(task.workload, value_order="per attribute")) for task in shared]
    multiplied = runner(shared, measure_traffic)

    def claims(measured: Sequence[Traffic]) -> list[Claim]:
        rewriting = [one.rjoin_total - one.rjoin.get("tuple", 0) for one in measured]
        shares, shares_shared = _partial_shares(measured), _partial_shares(multiplied)
        times = [round(one.rjoin_total / one.dhtjoin_total, 2) for one in multiplied]
        why = (
            f"each join multiplies the partial results, {shares_shared[-1]:.0%} of it with {joins[-1]}; and "
            "DHTJoin looks up a node for each, where RJoin asked for its address before"
        )
        return [
            grows("more joins need more traffic: DHTJoin", [one.dhtjoin_total for one in measured]),
            grows("more joins need more traffic: RJoin's rewriting", rewriting),
            Claim(
                "the traffic grows only by attributes that no query had before: partial results stay below a "
                "tenth of it",
                max(shares) < 0.1,
                {"partial results' share": shares},
            ),
            Claim(
                "DHTJoin's traffic is below RJoin's also where all attributes share their frequent values",
                holds := min(times) > 1,
                {"RJoin / DHTJoin": times, "partial results' share": shares_shared},
                "" if holds else why,
            ),
        ]

    return traffic_figure("dhtjoin-4c", tasks, joins, "joins a query", runner, claims)


def _partial_shares(measured: Sequence[Traffic]) -> list[float]:
    return [round(one.dhtjoin.get(PARTIAL, 0) / one.dhtjoin_total, 2) for one in measured]


@figure("dhtjoin-5", "DHTJoin Figure 5: messages while a stream's source is inactive")
def figure_5(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """The scenario of Figure 1(b), with and without alerts; patient ones wait a window before suspending."""
    base = Outage(0, None, tuples_per_s=40, seed=seed) if quick else Outage(0, None, seed=seed)
    inactive = (0, 5, 10, 15) if quick else (0, 5, 10, 15, 20, 25, 30)
    modes = {"no alerts": None, "alerts": 1.0, "alerts after a window": base.window_s}
    tasks = [replace(base, inactive_s=s, silent_s=mode) for mode in modes.values() for s in inactive]
    results = runner(tasks, run_outage)
    rows = {mode: results[n * len(inactive) : (n + 1) * len(inactive)] for n, mode in enumerate(modes)}
    plain, alerted = rows["no alerts"], rows["alerts"]
    saved = 1 - alerted[-1].messages / plain[-1].messages
    kept = {
        mode: [round(one.answers / ref.answers, 3) for one, ref in zip(row, plain, strict=True)]
        for mode, row in rows.items()
    }
    losses = [1 - share for s, share in zip(inactive, kept["alerts"], strict=True) if s >= base.window_s]
    claims = (
        grows(
            "without alerts, useless partial results increase with inactivity", [one.wasted for one in plain]
        ),
        Claim(
            "alerts reduce the traffic, the more the longer the source is inactive",
            0 < 1 - alerted[1].messages / plain[1].messages < saved,
            {
                "saved": [
                    round(1 - one.messages / ref.messages, 3) for one, ref in zip(alerted, plain, strict=True)
                ]
            },
        ),
        Claim(
            "alerts lose answers of the windows around an outage only: not more where it is longer",
            max(losses) - min(losses) <= 0.05,
            {"share of answers kept": {mode: kept[mode] for mode in list(modes)[1:]}},
            "the paper does not count them; to wait a window before suspending saves those from before it",
        ),
    )
    lines = [Series(mode, inactive, [one.messages for one in row]) for mode, row in rows.items()]
    wasted = [Series(mode, inactive, [one.wasted for one in row]) for mode, row in rows.items()]
    panels = (
        Panel("network traffic", "inactivity (s)", "messages", lines),
        Panel("useless partial results", "inactivity (s)", "partial results in no answer", wasted),
    )
    return FigureResult("dhtjoin-5", asdict(base), panels, claims)


@figure("dhtjoin-6", "DHTJoin Figure 6: network coverage of queries while nodes fail")
def figure_6(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """The tree alone and with gossip; each point is the mean over several rings."""
    base = Churn(0, False, nodes=256, duration_s=200) if quick else Churn(0, False)
    rates = (0.0, 0.2, 0.4, 0.6) if quick else (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
    repeats = 2 if quick else 3
    tasks = [
        replace(base, failures_per_s=rate, with_gossip=gossip, seed=seed * repeats + again)
        for gossip in (False, True)
        for rate in rates
        for again in range(repeats)
    ]
    results = runner(tasks, run_churn)
    means = [
        sum(one.mean for one in results[start : start + repeats]) / repeats
        for start in range(0, len(results), repeats)
    ]
    tree, gossip = means[: len(rates)], means[len(rates) :]
    messages = [one.messages_per_query for one in results]
    half = len(results) // 2
    claims = (
        Claim("without failures the tree reaches every node", tree[0] == 1, tree[0]),
        Claim(
            "with node failures the tree alone does not reach all",
            all(share < 1 for share in tree[1:]),
            [round(share, 4) for share in tree],
        ),
        Claim(
            "complemented with gossip, coverage is 100% in spite of more failures",
            all(share == 1 for share in gossip),
            [round(share, 5) for share in gossip],
            f"gossip costs {sum(messages[half:]) / sum(messages[:half]):.1f} times the messages of the tree",
        ),
    )
    lines = [Series("tree", rates, tree), Series("tree with gossip", rates, gossip)]
    panel = Panel("network coverage", "failures a second", "share of living nodes", lines)
    return FigureResult("dhtjoin-6", asdict(base) | {"repeats": repeats}, (panel,), claims)


@figure("dhtjoin-completeness", "DHTJoin section 5: completeness measured, and equation (11)")
def figure_completeness(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """Two-way and three-way joins with memory for a part of their windows, over more and more nodes."""
    base = Sizing(1, 100, seed=seed)
    nodes: tuple[int, ...] = (5, 10, 15, 20, 25, 30, 35)
    if quick:
        base, nodes = Sizing(1, 40, tuples_per_s=100.0, windows=2, seed=seed), (5, 12, 20)
    panels, claims = [], []
    for ways in (2, 3):
        sizing = replace(base, ways=ways)
        needed = partitions_needed(sizing.demands(), TARGET)
        tasks = [
            one
            for size in (sizing, _larger(sizing))
            for one in (replace(size, memory_tuples=None), replace(size, nodes=needed, shedding="newcomer"))
        ]
        tasks += [replace(sizing, nodes=n, shedding=policy) for policy in POLICIES for n in nodes]
        whole, sized, whole_larger, sized_larger, *counts = runner(tasks, count_answers)
        shares = [count / whole for count in counts]
        rows = {policy: shares[n * len(nodes) : (n + 1) * len(nodes)] for n, policy in enumerate(POLICIES)}
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
