"""What RJoin's figures have in common: sizes, the paper's layout of panels, and measures over snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from watersmeet.lab.figures.rjoin.experiment import Experiment, Snapshot, run_experiment
from watersmeet.lab.figures.rjoin.workload import Workload
from watersmeet.lab.figures.runners import Runner
from watersmeet.lab.figures.svg_chart import Panel, Series
from watersmeet.lab.overlay.chord.ring import identifier
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.rjoin.indexing import Strategy

EQUAL_RELATIONS = "own values, relations all as frequent"
OWN_VALUES = "the same where every attribute has frequent values of its own"
AT_FULL_SIZE = "too small a run to tell from chance; at full size it holds"
ALONE = "total, a message a query"
NODES_BY_LOAD = "nodes, highest load first"
NAMES = {"worst": "worst", "random": "random", "ric": "RJoin"}


@dataclass(frozen=True)
class Size:
    """How large an experiment is."""

    nodes: int
    queries: int
    tuples: int


PAPER = Size(1000, 20_000, 1000)
QUICK = Size(200, 2000, 400)
SHARED_PAPER = Size(1000, 1000, 600)
SHARED_QUICK = Size(200, 300, 600)


def sized(quick: bool, seed: int) -> tuple[Size, Experiment]:
    """The paper's size or a small one, and its default experiment."""
    return _experiment(QUICK if quick else PAPER, Workload(seed=seed), seed)


def sized_shared(quick: bool, seed: int) -> tuple[Size, Experiment]:
    """The same with frequent values that all attributes share: fewer queries, each with far more answers."""
    workload = Workload(seed=seed, value_order="shared")
    return _experiment(SHARED_QUICK if quick else SHARED_PAPER, workload, seed)


def own_values(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The same experiments where every attribute has frequent values of its own."""
    return [replace(run, workload=replace(run.workload, value_order="per attribute")) for run in experiments]


def in_three_readings(
    runner: Runner, experiments: Sequence[Experiment]
) -> tuple[list[Snapshot], list[Snapshot], list[Snapshot]]:
    """The last snapshots as given; with each attribute's own values; with relations all as frequent too."""
    apart = own_values(experiments)
    even = [replace(run, workload=replace(run.workload, relation_theta=0.0)) for run in apart]
    count = len(experiments)
    last = [run[-1] for run in runner([*experiments, *apart, *even], run_experiment)]
    return last[:count], last[count : 2 * count], last[2 * count :]


def _experiment(size: Size, workload: Workload, seed: int) -> tuple[Size, Experiment]:
    experiment = Experiment(
        nodes=size.nodes,
        queries=size.queries,
        checkpoints=(size.tuples,),
        warm_up=size.tuples // 2,
        workload=workload,
        seed=seed,
    )
    return size, experiment


def traffic_and_loads(
    x_label: str, x: Sequence[float], labels: list[str], snapshots: Sequence[Snapshot], base: Experiment
) -> tuple[Panel, ...]:
    """The layout of most figures: traffic for a tuple, and both loads node by node."""
    scale = base.nodes * base.checkpoints[-1]
    total = [snap.messages / scale for snap in snapshots]
    alone = [snap.messages_alone / scale for snap in snapshots]
    asking = [snap.traffic.get("ric", 0) / scale for snap in snapshots]
    traffic = [Series("total", x, total), Series("asking for rates", x, asking), Series(ALONE, x, alone)]
    return (
        Panel("(a) network traffic", x_label, "messages a node for a tuple", traffic, kind="bar"),
        ranked("(b) query processing load", labels, snapshots, "processing"),
        ranked("(c) storage load", labels, snapshots, "storage"),
    )


def totals(
    title: str, x: Sequence[float], runs: Mapping[Strategy, list[Snapshot]], load: str, nodes: int
) -> Panel:
    """A load of all nodes together, one colour for each strategy."""
    series = [
        Series(NAMES[name], x, [a_node(sum(getattr(snap, load)), nodes) for snap in found])
        for name, found in runs.items()
    ]
    return Panel(title, "tuples", "load a node", series, kind="bar", log_y=True)


def ranked(title: str, labels: Sequence[str], snapshots: Sequence[Snapshot], load: str) -> Panel:
    """The loads of all nodes, from the highest down, one line for each run."""
    series = []
    for label, snap in zip(labels, snapshots, strict=True):
        loads: list[float] = getattr(snap, load)
        series.append(Series(label, list(range(1, len(loads) + 1)), loads))
    return Panel(title, NODES_BY_LOAD, "load", series)


def growth(snapshots: Sequence[Snapshot], nodes: int, measure: Callable[[Snapshot], int]) -> list[float]:
    """How much a measure grows for one more tuple, node for node, between checkpoints."""
    points = [(0, 0), *((snap.tuples, measure(snap)) for snap in snapshots)]
    return [
        round((after[1] - before[1]) / (after[0] - before[0]) / nodes, 4)
        for before, after in pairwise(points)
    ]


def nodes_with_keys(experiment: Experiment) -> int:
    """How many nodes are responsible for any key of the workload: only these can take part."""
    ring, workload = StableRing.of(experiment.nodes), experiment.workload
    pairs = [f"R{r}+A{a}" for r in range(workload.relations) for a in range(workload.attributes)]
    triples = [f"{pair}+{value}" for pair in pairs for value in range(workload.values)]
    return len({ring.owner(identifier(key, ring.bits)) for key in (*pairs, *triples)})


def participants(snap: Snapshot) -> int:
    """How many nodes took part in query processing."""
    return sum(load > 0 for load in snap.processing)


def top_share(loads: Sequence[int]) -> float:
    """The part of all load that the busiest tenth of the nodes carries; loads come highest first."""
    return round(sum(loads[: max(1, len(loads) // 10)]) / max(1, sum(loads)), 3)


def slowdown(loads: Sequence[int]) -> float:
    """How much more the last quarter of the tuples costs than the second."""
    quarter = len(loads) // 4
    return ratio(loads[-1] - loads[-1 - quarter], loads[2 * quarter - 1] - loads[quarter - 1])


def grows_to(values: Sequence[float], most: float) -> bool:
    """Whether each value is above the one before, until there is no more to be had."""
    return values[0] < values[-1] and all(
        before < after or after >= most for before, after in pairwise(values)
    )


def ratio(above: float, below: float) -> float:
    """How many times one is the other, to two decimals."""
    return round(above / below, 2) if below else float("inf")


def a_node(total: float, nodes: int) -> float:
    """An average over the nodes."""
    return total / nodes


def parameters(experiment: Experiment, **swept: Any) -> dict[str, Any]:
    """The parameters of a figure, with the values of the swept one."""
    flat = asdict(experiment)
    flat |= flat.pop("workload") | {"seed": experiment.seed}
    return flat | swept
