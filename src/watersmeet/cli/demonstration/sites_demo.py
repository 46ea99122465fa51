"""The workload of the demonstration of sites: routers, each of which sees mostly destinations of its own.

Half of a router's packets go to destinations that no other router knows. The other half go to shared ones,
each of which has a home: the router there sees fifty of its packets for each one that another router sees.
What is frequent at one router is rare at the others, so no single plan is good for all destinations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.plan.statistics import AttributeStatistics, Statistics, StreamStatistics

SITES = {"r1": "paris", "r2": "oslo", "r3": "rome"}  # of the routers
SHARED, OWN = 60, 300  # destinations: of all routers together, and of each by itself
AWAY = 0.02  # packets to a shared destination that another router sees, for each that the one at home sees
SKEW = 0.8
HEAD_BYTES = 150  # of a packet, that is kept with it
WINDOW_MS = 1000
START_US = 1_735_689_600_000_000  # 2025-01-01 UTC

STREAM = """\
CREATE STREAM {name} (dest STRING, size BIGINT, head STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = '../data/{name}', event_time = 'ts', site = '{site}');
"""

QUERY = f"""
CREATE SINK common WITH (format = 'parquet', path = 'out');

INSERT INTO common
SELECT a.dest, a.size AS size_1, b.size AS size_2, c.size AS size_3,
       a.head AS head_1, b.head AS head_2, c.head AS head_3, answer_time
FROM r1 [RANGE {WINDOW_MS} MS] AS a, r2 [RANGE {WINDOW_MS} MS] AS b, r3 [RANGE {WINDOW_MS} MS] AS c
WHERE a.dest = b.dest AND b.dest = c.dest;
"""


@dataclass(frozen=True)
class SitesDemo:
    """What to join: `rate` packets a second at each router, for so long in event time."""

    seconds: int = 60
    rate: int = 400
    seed: int = 1

    def pipeline(self) -> str:
        """The pipeline file, in a folder beside that of the data."""
        sites = "".join(f"CREATE SITE {site} WITH (master = 'local[1]');\n" for site in SITES.values())
        streams = "".join(STREAM.format(name=name, site=site) for name, site in SITES.items())
        return f"{sites}\n{streams}{QUERY}"

    def packets(self) -> dict[str, pa.Table]:
        """The tuples of every stream, in order of time."""
        random = np.random.default_rng(self.seed)
        return {name: self._packets(home, random) for home, name in enumerate(SITES)}

    def _packets(self, home: int, random: np.random.Generator) -> pa.Table:
        names = [f"10.0.0.{n}" for n in range(SHARED)] + [f"10.{home + 1}.0.{n}" for n in range(OWN)]
        number = random.poisson(_shares(home) * self.rate * self.seconds)
        dest = np.repeat(names, number)
        rows = len(dest)
        ts = START_US + (random.random(rows) * self.seconds * 1e6).astype(np.int64)
        order = np.argsort(ts, kind="stable")
        head = np.frombuffer(random.bytes(rows * HEAD_BYTES // 2).hex().encode(), f"S{HEAD_BYTES}")
        return pa.table(
            {
                "dest": pa.array(dest[order]),
                "size": random.integers(40, 1500, rows),
                "head": pa.array(head).cast(pa.string()),
                "ts": pa.array(ts[order]).cast(pa.timestamp("us", "UTC")),
            }
        )

    def statistics(self, packets: Mapping[str, pa.Table]) -> Statistics:
        """What `watersmeet analyze` measures, counted over all packets."""
        return Statistics({name: self._measured(name, table) for name, table in packets.items()})

    def _measured(self, name: str, packets: pa.Table) -> StreamStatistics:
        text = sum(pc.sum(pc.binary_length(packets[column])).as_py() for column in ("dest", "head"))
        counts = Counter(packets["dest"].to_pylist())
        values = tuple((value, count / self.seconds) for value, count in counts.most_common())
        return StreamStatistics(
            rate_per_s=packets.num_rows / self.seconds,
            tuple_bytes=round(text / packets.num_rows + 16, 2),  # and the size, and the time
            site=SITES[name],
            attributes={"dest": AttributeStatistics(distinct=len(counts), heavy_hitters=values)},
        )


def _shares(home: int) -> npt.NDArray[np.float64]:
    """The share of each destination in a router's packets: of those that are shared, then of its own."""
    rank = np.arange(SHARED) // len(SITES) + 1
    at_home = np.arange(SHARED) % len(SITES) == home
    shared = rank**-SKEW * np.where(at_home, 1.0, AWAY)
    return np.concatenate([shared / shared.sum(), np.full(OWN, 1 / OWN)]) / 2
