"""The figures of DHTJoin's extended version, section 6: traffic, a source that is down, nodes that fail.

Network traffic is counted in hops, every message from one node to another, without those of answers, the same
for both methods. `dhtjoin-4a` to `4c` run RJoin and DHTJoin on the same tuples and queries and insist that
both find equally many answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from watersmeet.lab.figures.dhtjoin.coverage import Churn, run_churn
from watersmeet.lab.figures.dhtjoin.outage import Outage, run_outage
from watersmeet.lab.figures.dhtjoin.traffic import (
    Traffic,
    grows,
    measure_traffic,
    query_rates,
    traffic_figure,
    tuple_rates,
    vary,
)
from watersmeet.lab.figures.dhtjoin.workload import Workload
from watersmeet.lab.figures.figure import Claim, FigureResult, judged
from watersmeet.lab.figures.registry import figure
from watersmeet.lab.figures.runners import Runner, run_rows
from watersmeet.lab.figures.svg_chart import Panel, Series
from watersmeet.lab.overlay.dhtjoin.messages import IndexPartial

QUICK_WORKLOAD = Workload(nodes=128, duration_s=60)
FULL_WORKLOAD = Workload()

PARTIAL = IndexPartial.kind


def _workload(quick: bool, seed: int) -> Workload:
    return replace(QUICK_WORKLOAD if quick else FULL_WORKLOAD, seed=seed)


@figure("dhtjoin-4a", "DHTJoin Figure 4(a): network traffic by the tuples' arrival rate")
def figure_4a(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """Type-1 queries; more tuples mean more messages, far fewer in DHTJoin."""
    rates = tuple_rates(quick)
    tasks = vary(_workload(quick, seed), "tuples_per_s", rates)

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
    rates = query_rates(quick)
    tasks = vary(_workload(quick, seed), "queries_per_s", rates)

    def claims(measured: Sequence[Traffic]) -> list[Claim]:
        return [
            grows("RJoin rewrites more as more queries arrive", [one.rewriting for one in measured]),
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
    base = replace(_workload(quick, seed), query_type=2)
    tasks = vary(replace(base, value_order="per attribute"), "joins", joins)
    multiplied = runner(vary(base, "joins", joins), measure_traffic)

    def claims(measured: Sequence[Traffic]) -> list[Claim]:
        shares, shares_shared = _partial_shares(measured), _partial_shares(multiplied)
        times = [round(one.rjoin_total / one.dhtjoin_total, 2) for one in multiplied]
        why = (
            f"each join multiplies the partial results, {shares_shared[-1]:.0%} of it with {joins[-1]}; and "
            "DHTJoin looks up a node for each, where RJoin asked for its address before"
        )
        return [
            grows("more joins need more traffic: DHTJoin", [one.dhtjoin_total for one in measured]),
            grows("more joins need more traffic: RJoin's rewriting", [one.rewriting for one in measured]),
            Claim(
                "the traffic grows only by attributes that no query had before: partial results stay below a "
                "tenth of it",
                max(shares) < 0.1,
                {"partial results' share": shares},
            ),
            judged(
                "DHTJoin's traffic is below RJoin's also where all attributes share their frequent values",
                min(times) > 1,
                {"RJoin / DHTJoin": times, "partial results' share": shares_shared},
                why,
            ),
        ]

    return traffic_figure("dhtjoin-4c", tasks, joins, "joins a query", runner, claims)


def _partial_shares(measured: Sequence[Traffic]) -> list[float]:
    return [round(one.dhtjoin.get(PARTIAL, 0) / one.dhtjoin_total, 2) for one in measured]


@figure("dhtjoin-5", "DHTJoin Figure 5: messages while a stream's source is inactive")
def figure_5(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """The scenario of Figure 1(b), with and without alerts; the last mode first waits a window."""
    base = (
        Outage(inactive_s=0, silent_s=None, tuples_per_s=40, seed=seed)
        if quick
        else Outage(inactive_s=0, silent_s=None, seed=seed)
    )
    inactive = (0, 5, 10, 15) if quick else (0, 5, 10, 15, 20, 25, 30)
    modes = {"no alerts": None, "alerts": 1.0, "alerts after a window": base.window_s}
    tasks = {
        mode: [replace(base, inactive_s=s, silent_s=silent_s) for s in inactive]
        for mode, silent_s in modes.items()
    }
    rows = run_rows(runner, tasks, run_outage)
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
    base = (
        Churn(failures_per_s=0, with_gossip=False, nodes=256, duration_s=200)
        if quick
        else Churn(failures_per_s=0, with_gossip=False)
    )
    rates = (0.0, 0.2, 0.4, 0.6) if quick else (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
    repeats = 2 if quick else 3
    tasks = {
        (gossip, rate): [
            replace(base, failures_per_s=rate, with_gossip=gossip, seed=seed * repeats + again)
            for again in range(repeats)
        ]
        for gossip in (False, True)
        for rate in rates
    }
    found = run_rows(runner, tasks, run_churn)
    tree, gossip = (
        [sum(one.mean for one in found[by_gossip, rate]) / repeats for rate in rates]
        for by_gossip in (False, True)
    )
    messages = [
        sum(one.messages_per_query for rate in rates for one in found[by_gossip, rate])
        for by_gossip in (False, True)
    ]
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
            f"gossip costs {messages[1] / messages[0]:.1f} times the messages of the tree",
        ),
    )
    lines = [Series("tree", rates, tree), Series("tree with gossip", rates, gossip)]
    panel = Panel("network coverage", "failures a second", "share of living nodes", lines)
    return FigureResult("dhtjoin-6", asdict(base) | {"repeats": repeats}, (panel,), claims)
