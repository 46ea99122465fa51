"""How fast the overlay lab's simulations are, and how much memory they take.

    python benchmarks/overlay_lab.py figure-2          the full Figure 2 of RJoin, two processes
    python benchmarks/overlay_lab.py hundred-thousand  RJoin on 100,000 nodes, 1000 queries, 1000 tuples

Prints seconds and mebibytes.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace

from watersmeet.lab.figures.rjoin.experiment import Experiment, run_experiment
from watersmeet.lab.figures.rjoin.panels import PAPER
from watersmeet.lab.figures.rjoin.strategies import STRATEGIES
from watersmeet.lab.figures.runners import run_in_processes


def figure_2() -> str:
    """Three strategies on 1000 nodes, 20,000 queries and 400 tuples."""
    base = Experiment(nodes=PAPER.nodes, queries=PAPER.queries, checkpoints=(50, 100, 200, 400), warm_up=500)
    runs = run_in_processes(2)([replace(base, strategy=strategy) for strategy in STRATEGIES], run_experiment)
    costs = [f"{strategy} {run[-1].messages_alone}" for strategy, run in zip(STRATEGIES, runs, strict=True)]
    return f"messages: {', '.join(costs)}"


def hundred_thousand() -> str:
    """A ring as large as the lab promises."""
    [run] = run_experiment(Experiment(nodes=100_000, queries=1000, checkpoints=(1000,), warm_up=500))
    return f"messages: {run.messages}, answers: {run.answers}"


MEASURES = {"figure-2": figure_2, "hundred-thousand": hundred_thousand}


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in MEASURES:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(MEASURES)}")
    start = time.perf_counter()
    found = MEASURES[sys.argv[1]]()
    seconds = time.perf_counter() - start
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"{sys.argv[1]}: {seconds:.1f} s, {max(peaks) // 1024} MiB at most in a process; {found}")


if __name__ == "__main__":
    main()
