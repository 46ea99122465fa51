"""What the six one-way join methods cost at the settings of the semijoin paper's Figure 7.

    python benchmarks/semijoin_methods.py

Seconds per second of stream, while the selectivity factor of S2 varies and that of S1 stays at 0.1.
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet.plan.sites.semijoin.cost import PAPER_METHODS, JoinSide, Method, OneWayJoin, join_cost
from watersmeet.plan.statistics.statistics import Link

STREAM = JoinSide(rate_per_s=300, window_tuples=900, tuple_bytes=1250, key_bytes=5, distinct=10)
LINK = Link(bytes_per_s=128_000, latency_s=0.025)
INTERVAL_S = 0.1
FACTORS = (0.02, 0.05, 0.1, 0.2, 0.5)


def costs(factor: float) -> dict[Method, float]:
    """Each method's cost with this selectivity factor of S2."""
    join = OneWayJoin(
        STREAM, replace(STREAM, distinct=1 / factor), link=LINK, back=LINK, interval_s=INTERVAL_S
    )
    return {method: join_cost(join, method).total for method in PAPER_METHODS}


def main() -> None:
    print(f"{'f2':>5} " + " ".join(f"{method.value:>6}" for method in PAPER_METHODS))
    for factor in FACTORS:
        print(f"{factor:>5} " + " ".join(f"{cost:>6.2f}" for cost in costs(factor).values()))


if __name__ == "__main__":
    main()
