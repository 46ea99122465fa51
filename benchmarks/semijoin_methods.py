"""What the six one-way join methods cost at the settings of the semijoin paper's Figure 7.

    python benchmarks/semijoin_methods.py

Seconds per second of stream, while the selectivity factor of S2 varies and that of S1 stays at 0.1.
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet.lab.figures.semijoin.one_way import INTERVAL_S, LINK, STREAM
from watersmeet.plan.sites.semijoin.cost import PAPER_METHODS, Method, OneWayJoin, join_cost

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
