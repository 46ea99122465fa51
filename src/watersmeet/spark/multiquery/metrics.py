"""What a ring tells of each batch, observed as the metrics of one query are.

In a ring of many queries streams take the place of inputs: `input_s1` are the tuples of s1 that arrived.
`sent` counts a tuple once for each attribute in use; `sent_by_all` is what it would be if every tuple were
indexed by every attribute of its stream, as in RJoin. `went_a b by b.y` are the partial results of a and b
that went on by b.y, where they could have gone another way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.kernel import SharedBucket
from watersmeet.query import BEGINNING
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.exchange.wire import UNKNOWN
from watersmeet.spark.metrics.metrics import WATERMARK_US, as_text, is_largest
from watersmeet.spark.multiquery.wire import MARK, SharedRow

SUMMED = (
    "answers",
    "probes",
    "state_rows",
    "state_bytes",
    "memory_bytes",
    "kernel_us",
    "stage_us",
    "arrived_bytes",
    "combinations",  # results of joins, at all levels
    "sent",
    "sent_by_all",
    "stored",  # of these, kept at a later level: rewritten queries that wait for more tuples
)


def dataflow_metric_names(names: Mapping[str, str], dataflow: SharedDataflow) -> tuple[str, ...]:
    """Every metric of a ring, in order."""
    levels = dataflow.levels
    per_input = [f"{kind}_{name}" for name in names for kind in ("input", "late", "null_times")]
    per_level = [f"{kind}_level_{n}" for n in range(1, levels + 1) for kind in ("state_rows", "combinations")]
    times = [f"max_ts_{stream}" for stream in dict.fromkeys(names.values())]
    went = dict.fromkeys(way_names(dataflow).values())
    return (*SUMMED, *per_input, *per_level, *went, WATERMARK_US, *times)


def way_names(dataflow: SharedDataflow) -> dict[str, str]:
    """By relation that results choose, the metric that counts those who did."""
    if not dataflow.expected:
        return {}
    routes = {relation.name: relation.route for relation in dataflow.relations}
    return {
        way.relation: f"went_{' '.join(join.slots)} by {routes[way.relation]}"
        for join in dataflow.joins
        for way in join.ways
    }


class SharedMetrics:
    """The metrics of one bucket of one level."""

    def __init__(self, names: Mapping[str, str], dataflow: SharedDataflow) -> None:
        self._names = names
        self._ways = way_names(dataflow)
        metrics = dataflow_metric_names(names, dataflow)
        self._values = {name: BEGINNING if is_largest(name) else 0 for name in metrics}

    @property
    def text(self) -> str:
        return as_text(self._values)

    def set(self, name: str, value: int) -> None:
        self._values[name] = value

    def count(
        self,
        level: int,
        rows: Sequence[SharedRow],
        bucket: SharedBucket,
        after: Mapping[str, int],
        feed_levels: Mapping[str, tuple[int, ...]],
        attributes: Mapping[str, int],
    ) -> None:
        """Counts what arrived and what is kept; `attributes` is how many each input has."""
        counts = bucket.counts
        for row in rows:
            if row.source.startswith(MARK):
                name = row.source.removeprefix(MARK)
                self._values[f"input_{name}"] += row.rows
                self._values["sent_by_all"] += row.rows * attributes[name]
                self._values[f"null_times_{name}"] += row.null_times
                newest = f"max_ts_{self._names[name]}"
                self._values[newest] = max(self._values[newest], row.max_ts, UNKNOWN)
        inputs = {stream: name for name, stream in reversed(list(self._names.items()))}
        for stream, late in counts.late.items():
            self._values[f"late_{inputs[stream]}"] += late
        for relation, went in counts.went.items():
            self._values[self._ways[relation]] += went
        self._values |= {
            "answers": sum(counts.answers.values()),
            "probes": counts.probes,
            "state_rows": sum(bucket.state_rows.values()),
            "state_bytes": sum(bucket.state_bytes.values()),
            "memory_bytes": bucket.used_bytes,
            "arrived_bytes": sum(len(row.chunk) for row in rows),
            "sent": sum(row.rows for row in rows if feed_levels.get(row.source, (0,))[0] == level),
            "combinations": counts.results,
            "stored": counts.stored,
            f"state_rows_level_{level}": sum(bucket.state_rows.values()),
            f"combinations_level_{level}": counts.results,
            WATERMARK_US: min(after.values(), default=BEGINNING),
        }
