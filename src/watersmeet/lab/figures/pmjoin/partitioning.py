"""PMJoin's figures 8 to 10 (DASFAA 2006, section 4.2): what partitioning saves, and what its routing costs.

Ten streams on ten nodes, joined on one attribute of 1000 values. Costs are tuples a second between nodes,
by the rate model, averaged over random workloads; the first workload of some points is simulated as well.

Figure 9 shows CPU time in the paper. Here routing is counted in steps of the simulation, as a figure is a
function of its seed: tuples sent to another node, and lookups of a value's partition (wan/pmjoin/network.py).
How much a lookup weighs against a sending is for the reader to say; a claim gives the weight at which they
break even.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from watersmeet.lab.figures.figure import Claim, FigureResult, judged
from watersmeet.lab.figures.pmjoin.costs import CostTask, Setting
from watersmeet.lab.figures.pmjoin.sweep import Averaged, Grid, agreement, rounded, sweep
from watersmeet.lab.figures.registry import figure
from watersmeet.lab.figures.runners import Runner
from watersmeet.lab.figures.svg_chart import Panel, Series

HASH, RANGE, RATE = "hash", "range", "rate"
KINDS = (HASH, RANGE, RATE)
ALIKE, APART = "similar", "different"
EXCHANGEABLE = (
    "where frequent values are spread at random, a range holds values as random as a hash bucket does, and a"
    " hash leaves some of its buckets empty; the paper does not say how its values were spread"
)
NEIGHBOURS = "with 500 partitions for 1000 values a range holds two neighbours, which are all but alike"
LONG_WINDOWS = (
    "under windows of 10 to 100 s a value of 1000 has more results than its streams have tuples, so results"
    " are seldom shipped and each further stream adds to the cost; under windows a tenth as long it falls, as"
    " the next claim shows"
)
PARTS = (
    "the paper does not say whether it means tuples or parts; the part saved changes more with the"
    " distributions drawn than with the number of streams"
)
SHORT = "random, windows a tenth as long"
TIES = 1.001  # costs that differ by less count as equal

Found = Mapping[tuple[str, str, int], Averaged]


def settings(seed: int) -> dict[str, Setting]:
    """The four panels of figures 8 and 9."""
    return {
        "contiguous, similar": Setting(likeness="similar", hot_spot="contiguous", seed=seed),
        "contiguous, different": Setting(likeness="different", hot_spot="contiguous", seed=seed),
        "random, similar": Setting(likeness="similar", hot_spot="random", seed=seed),
        "random, different": Setting(likeness="different", hot_spot="random", seed=seed),
    }


@figure("pmjoin-8", "PMJoin, Figure 8: communication cost by the number of partitions")
def pmjoin_8(quick: bool, seed: int, runner: Runner) -> FigureResult:
    numbers = (1, 2, 10, 100, 1000) if quick else (1, 2, 5, 10, 50, 100, 200, 500, 1000)
    repeats = 2 if quick else 10
    cases = settings(seed)
    points = {
        (case, kind, number): CostTask(setting, partitions=number, partitioning=kind)
        for case, setting in cases.items()
        for kind in KINDS
        for number in numbers
    }
    shown = [
        key for key in points if (key[1] == RATE and key[2] == 100) or (not quick and key[2] in (2, 10, 1000))
    ]
    found = sweep(points, repeats, runner, simulated=shown, simulated_s=2.0 if quick else 10.0)
    grid = Grid(found, numbers)
    between = [number for number in numbers if 2 <= number < 1000]
    saved = {case: _saving(found, case, RATE, 1000) for case in cases}
    by_two = {case: _saving(found, case, RATE, 2) for case in cases}
    claims = (
        Claim(
            "partitioning saves more where distributions differ than where they are similar",
            min(saved[case] for case in cases if APART in case)
            > max(saved[case] for case in cases if ALIKE in case),
            saved,
        ),
        Claim(
            "where they differ, two partitions already save much (a tenth or more for contiguous hot spots)",
            by_two["contiguous, different"] >= 0.1,
            by_two,
        ),
        Claim(
            "more partitions save more (cost at 1000 below that at 10 below that at 1; rate-based)",
            all(
                found[case, RATE, 1000].modelled
                <= found[case, RATE, 10].modelled
                < found[case, RATE, 1].modelled
                for case in cases
            ),
            {
                case: rounded([found[case, RATE, number].modelled for number in (1, 10, 1000)])
                for case in cases
            },
        ),
        _range_wins(found, between),
        *(_best(found, case, between) for case in list(cases)[1:]),
        _order(found, "random, different", between),
        agreement(found),
    )
    parameters = {"streams": 10, "range": 1000, "partitions": numbers, "workloads": repeats, "seed": seed}
    return FigureResult("pmjoin-8", parameters, grid.panels(KINDS, "partitions", log_x=True), claims)


def _saving(found: Found, case: str, kind: str, number: int) -> float:
    """The part of the unpartitioned cost that partitioning saves."""
    return round(1 - found[case, kind, number].modelled / found[case, kind, 1].modelled, 4)


def _means(found: Found, case: str, numbers: Sequence[int]) -> dict[str, float]:
    """Each partitioning's mean cost over some numbers of partitions."""
    return {kind: round(fmean(found[case, kind, n].modelled for n in numbers), 1) for kind in KINDS}


def _range_wins(found: Found, numbers: Sequence[int]) -> Claim:
    """Figure 8(a): contiguous hot spots and similar distributions."""
    case = "contiguous, similar"
    more = [number for number in numbers if number > 2]
    won = sum(found[case, RANGE, n].modelled <= found[case, RATE, n].modelled * TIES for n in more)
    holds = won > len(more) / 2
    strictly = sum(found[case, RANGE, n].modelled < found[case, RATE, n].modelled for n in more)
    why = (
        "vectors that are equal are halved in value order here, where the paper scatters them at random; that"
        " makes rate-based partitions ranges too, so it is not worse"
    )
    return Claim(
        "for contiguous hot spots of similar distributions, range is the best most of the time beyond two"
        " partitions (as good as rate-based within 0.1%)",
        holds,
        {"numbers of partitions": more, "as good": won, "strictly better": strictly},
        why if strictly < len(more) / 2 else "",
    )


def _best(found: Found, case: str, numbers: Sequence[int]) -> Claim:
    """Whether rate-based partitioning is the best, all in all."""
    means = _means(found, case, numbers)
    holds = means[RATE] <= min(means.values()) * TIES
    why = "k-means gathers by rank alone, and a range of neighbours may rank as much alike"
    return judged(f"for {case} distributions, rate-based is the best on average", holds, means, why)


def _order(found: Found, case: str, numbers: Sequence[int]) -> Claim:
    """The paper's order of range and hash where the hot spot is spread at random."""
    means = _means(found, case, numbers)
    return Claim(
        "range is worse than hash where hot spots are spread at random",
        means[RANGE] > means[HASH],
        means,
        EXCHANGEABLE,
    )


@figure("pmjoin-9", "PMJoin, Figure 9: routing cost by the number of partitions")
def pmjoin_9(quick: bool, seed: int, runner: Runner) -> FigureResult:
    numbers = (1, 2, 1000) if quick else (1, 2, 10, 100, 500, 1000)
    seconds = 2.0 if quick else 10.0
    cases = settings(seed)
    points = {
        (case, kind, number): CostTask(setting, partitions=number, partitioning=kind, counts_routing=True)
        for case, setting in cases.items()
        for kind in ((RATE,) if quick else KINDS)
        for number in numbers
    }
    found = sweep(points, 1, runner, simulated=list(points), simulated_s=seconds)
    sent = {key: one.first.simulated or 0.0 for key, one in found.items()}
    looked = {key: one.first.lookups_per_s for key, one in found.items()}
    fewer = {key: sent[key] < sent[key[0], key[1], 1] for key in found if key[2] > 1}
    even = {
        case: round((sent[case, RATE, 1] - sent[case, RATE, 1000]) / looked[case, RATE, 1000], 3)
        for case in cases
    }
    claims = (
        Claim(
            "most of the time partitioning routes fewer tuples between nodes",
            sum(fewer.values()) > len(fewer) / 2,
            {"points": len(fewer), "fewer": sum(fewer.values())},
        ),
        Claim(
            "with different distributions it routes far fewer (a quarter or more, at 1000 partitions)",
            all(sent[c, RATE, 1000] <= 0.75 * sent[c, RATE, 1] for c in cases if APART in c),
            {case: rounded([sent[case, RATE, n] for n in numbers]) for case in cases},
        ),
        Claim(
            "where distributions differ, that pays for the lookups if one costs up to a tenth of a sending",
            all(even[case] >= 0.1 for case in cases if APART in case),
            {"sendings saved by a lookup, at 1000 partitions": even},
            "a lookup is one probe of a hash table at the tuple's own node; similar distributions save too"
            " little for it",
        ),
        agreement(found),
    )
    kinds = dict.fromkeys(kind for _, kind, _ in found)
    panels = [
        Panel(
            f"({'abcd'[n]}) {case}",
            "partitions",
            "steps a second",
            [
                series
                for kind in kinds
                for series in (
                    Series(f"{kind}: sent between nodes", numbers, [sent[case, kind, x] for x in numbers]),
                    Series(f"{kind}: lookups", numbers, [looked[case, kind, x] for x in numbers]),
                )
            ],
            log_x=True,
        )
        for n, case in enumerate(cases)
    ]
    parameters = {"streams": 10, "range": 1000, "partitions": numbers, "simulated_s": seconds, "seed": seed}
    return FigureResult("pmjoin-9", parameters, tuple(panels), claims)


@figure("pmjoin-10", "PMJoin, Figure 10: sensitivity to the number of streams")
def pmjoin_10(quick: bool, seed: int, runner: Runner) -> FigureResult:
    counts = (4, 8, 12) if quick else (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
    repeats = 2 if quick else 10
    lines = {"unpartitioned": (1, RATE), "1000 partitions": (1000, RATE)}
    lines |= {f"{kind}, 500 partitions": (500, kind) for kind in KINDS}
    spread = settings(seed)["random, different"]
    cases = {
        "contiguous": settings(seed)["contiguous, different"],
        "random": spread,
        SHORT: spread.over(windows_s=(1.0, 10.0)),
    }
    points = {
        (case, line, count): CostTask(setting.over(streams=count), partitions=number, partitioning=kind)
        for case, setting in cases.items()
        for line, (number, kind) in lines.items()
        for count in counts
    }
    shown = [key for key in points if key[1] == "rate, 500 partitions" and (not quick or key[2] == counts[0])]
    found = sweep(points, repeats, runner, simulated=shown, simulated_s=2.0 if quick else 10.0)
    grid = Grid(found, counts)
    parameters = {"range": 1000, "streams": counts, "workloads": repeats, "seed": seed}
    return FigureResult(
        "pmjoin-10", parameters, grid.panels(list(lines), "streams"), _claims_10(grid, list(cases))
    )


def _claims_10(grid: Grid, cases: Sequence[str]) -> tuple[Claim, ...]:
    """How costs and savings go with the number of streams."""
    whole = {case: grid.line(case, "unpartitioned") for case in cases}
    finest = {case: grid.line(case, "1000 partitions") for case in cases}
    parts = {case: [1 - b / a for a, b in zip(whole[case], finest[case], strict=True)] for case in cases}
    saved = {case: [a - b for a, b in zip(whole[case], finest[case], strict=True)] for case in cases}
    return (
        Claim(
            "with more streams PMJoin saves more tuples a second",
            all(line[-1] > line[0] for line in saved.values()),
            {case: rounded(line) for case, line in saved.items()},
        ),
        judged(
            "it saves a larger part of the cost, too",
            all(line[-1] > line[0] for line in parts.values()),
            {case: rounded(line, 3) for case, line in parts.items()},
            PARTS,
        ),
        *_claims_on_kinds(grid, cases),
        Claim(
            "the unpartitioned cost rises with the number of streams",
            all(line[-1] > line[0] for line in whole.values()),
            {case: rounded(line) for case, line in whole.items()},
        ),
        Claim(
            "PMJoin's falls (the last below an earlier one)",
            all(finest[case][-1] < max(finest[case]) for case in ("contiguous", "random")),
            {case: rounded(finest[case]) for case in ("contiguous", "random")},
            LONG_WINDOWS,
        ),
        Claim(
            f"the same for random hot spots and {SHORT.split(', ')[1]}",
            finest[SHORT][-1] < max(finest[SHORT]),
            {"unpartitioned": rounded(whole[SHORT]), "PMJoin": rounded(finest[SHORT])},
        ),
        agreement(grid.found),
    )


def _claims_on_kinds(grid: Grid, cases: Sequence[str]) -> tuple[Claim, ...]:
    """How the three partitionings compare at 500 partitions, over all numbers of streams."""
    halves = {
        case: {kind: round(fmean(grid.line(case, f"{kind}, 500 partitions")), 1) for kind in KINDS}
        for case in cases
    }
    return (
        judged(
            "rate-based is the best for any number of streams (on average over them)",
            all(means[RATE] <= min(means.values()) * TIES for means in halves.values()),
            halves,
            NEIGHBOURS,
        ),
        Claim(
            "range is better than hash for contiguous hot spots",
            halves["contiguous"][RANGE] < halves["contiguous"][HASH],
            halves["contiguous"],
        ),
        Claim(
            "hash is better than range for random ones",
            halves["random"][HASH] < halves["random"][RANGE],
            halves["random"],
            EXCHANGEABLE,
        ),
    )
