"""How long does PMJoin plan, and how far is Algorithm 1 from the best plan?

    python benchmarks/pmjoin_planning.py [--streams 20] [--partitions 1000] [--queries 50] [--seed 1]

First the time to plan one join of many streams on one attribute, a partition per value, by each partitioning.
Then, for random joins of a few streams, the modelled cost of Algorithm 1, Local and Simple over that of the
exhaustive plan (the paper's Figures 5-7 show the first close to 1).
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import get_args

import numpy as np

from watersmeet.plan.sites.plan_tree import cost_bytes_per_s
from watersmeet.plan.sites.pmjoin.pmjoin import Optimizer, partitioned_plan, unpartitioned_plan
from watersmeet.plan.sites.stream_partition import PARTITIONINGS
from watersmeet.plan.statistics.attribute import AttributeStatistics
from watersmeet.plan.statistics.join_attribute import JoinAttribute
from watersmeet.plan.statistics.rate_model import RateModel, Source
from watersmeet.plan.statistics.value_groups import align


def random_model(streams: int, values: int, sites: int, random: np.random.Generator) -> RateModel:
    """Zipf values in an order of each stream's own; rates and windows as in the paper's section 4.2."""
    sources, known = [], []
    for n in range(streams):
        weights = random.permutation(np.arange(1, values + 1) ** -random.uniform(0.1, 1.5))
        rate = float(random.uniform(10, 1000))
        rates = weights * (rate / weights.sum())
        heavy_hitters = tuple((value, float(r)) for value, r in enumerate(rates))
        known.append((AttributeStatistics(values, heavy_hitters), rate))
        window_s = float(random.uniform(10, 100)) / 1000
        sources.append(
            Source.of(f"s{n}", f"n{random.integers(sites) if sites < streams else n}", rate, rate * window_s)
        )
    return RateModel(sources, [JoinAttribute("k", tuple(range(streams)), align(known))], 1.0)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--streams", type=int, default=20)
    arguments.add_argument("--partitions", type=int, default=1000)
    arguments.add_argument("--queries", type=int, default=50)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    random = np.random.default_rng(options.seed)

    model = random_model(options.streams, options.partitions, options.streams, random)
    whole = cost_bytes_per_s(unpartitioned_plan(model))
    print(f"{options.streams} streams, {options.partitions} values; unpartitioned {whole:.4g} bytes/s")
    for kind in PARTITIONINGS:
        for partitions in (options.partitions // 2, options.partitions):
            start = time.perf_counter()
            plan = partitioned_plan(model, partitions, kind)
            took = time.perf_counter() - start
            print(f"  {kind:5} {partitions:5} partitions: {took:.2f} s, {cost_bytes_per_s(plan):.4g} bytes/s")

    print(f"\ncost over the exhaustive plan's, {options.queries} random queries of 8 streams")
    for sites in (8, 3):
        ratios: dict[str, list[float]] = {}
        for _ in range(options.queries):
            model = random_model(8, 20, sites, random)
            best = cost_bytes_per_s(unpartitioned_plan(model, "optimal"))
            for name in get_args(Optimizer):
                cost = cost_bytes_per_s(unpartitioned_plan(model, name))
                ratios.setdefault(name, []).append(cost / best if best else 1.0)
        for name, values in ratios.items():
            print(f"  {sites} sites, {name:11}: mean {statistics.mean(values):.3f}, worst {max(values):.3f}")


if __name__ == "__main__":
    main()
