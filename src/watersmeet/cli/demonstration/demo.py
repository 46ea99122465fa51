"""The pipeline of the demonstration: packets that go to the same destination through three routers."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_MS = 250

STREAM = """\
CREATE STREAM {name} (dest STRING, src STRING, size BIGINT, ts TIMESTAMP)
WITH (format = 'watersmeet-generator', stream = '{name}', seed = '{seed}',
      rate = '{rate}', rows = '{rows}', rows_per_batch = '{at_most}',
      keys = '{keys}', skew = '0.5',
      event_time = 'ts', lateness = '200 ms', disorder = '200 ms');
"""

QUERY = f"""
CREATE SINK common WITH (format = 'parquet', path = 'out');

INSERT INTO common
SELECT a.dest, a.size AS size_1, b.size AS size_2, c.size AS size_3, answer_time
FROM r1 [RANGE {WINDOW_MS} MS] AS a, r2 [RANGE {WINDOW_MS} MS] AS b, r3 [RANGE {WINDOW_MS} MS] AS c
WHERE a.dest = b.dest AND b.dest = c.dest;
"""


@dataclass(frozen=True)
class Demo:
    """What to show: `rate` packets a second at each router, for so long."""

    seconds: int = 20
    rate: int = 20_000
    seed: int = 1

    @property
    def rows(self) -> int:
        """The packets of one router."""
        return self.seconds * self.rate

    def pipeline(self) -> str:
        """The pipeline file.

        Destinations grow in number with the rate, so that answers do as packets do. A batch takes two seconds
        of packets at most, so that a machine that is still warming up shows something too.
        """
        facts = {"rate": self.rate, "rows": self.rows, "seed": self.seed}
        facts |= {"keys": max(100, self.rate * 5 // 2), "at_most": 2 * self.rate}
        streams = [STREAM.format(name=name, **facts) for name in ("r1", "r2", "r3")]
        return "\n".join(streams) + QUERY
