"""What a shared dataflow reports of each batch, observed as the metrics of one query are.

With many queries streams take the place of inputs: `input_s1` are the tuples of s1 that arrived.
`sent` counts a tuple once for each attribute in use; `sent_by_all` is what it would be if every tuple were
indexed by every attribute of its stream, as in RJoin. `went_a b by b.y` are the partial results of a and b
that went on by b.y, where they could have gone another way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.kernel import SharedBucket, SharedCounts
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.metrics.metrics import WATERMARK, Combine, Metric, Metrics, max_ts
from watersmeet.spark.metrics.site_progress import READ
from watersmeet.spark.multiquery.messages import Bounds, InputProgress, LevelMessage, LevelRows

# Answers as joins find them; thousandths of answers missed, as estimated; partial results that were shed;
# values of DISTINCT that were left out.
LIMITED = ("found", "missed_milli", "results_shed", "values_left_out")
DROPPED_KINDS = ("input", "late", "null_times", "ahead")


def dataflow_metrics(
    names: Mapping[str, str], dataflow: SharedDataflow, links: Sequence[str] = (), *, is_limited: bool = False
) -> Metrics:
    """Every metric of a shared dataflow; `names` are those of the inputs, with the stream of each.

    `links` are the sites that links come from, where there are any. Under a limit of memory there is more to
    tell.
    """
    levels = range(1, dataflow.levels + 1)
    return Metrics(
        [
            Metric("answers"),
            Metric("probes"),
            Metric("state_rows"),
            Metric("state_bytes"),
            Metric("memory_bytes"),
            Metric("kernel_us"),
            Metric("stage_us"),
            Metric("arrived_bytes"),
            Metric("combinations"),  # results of joins, at all levels
            Metric("sent"),
            Metric("sent_by_all"),
            Metric("stored"),  # of these, kept at a later level: rewritten queries that wait for more tuples
            *(Metric(f"{kind}_{name}") for name in names for kind in DROPPED_KINDS),
            *(Metric(f"{kind}_level_{n}") for n in levels for kind in ("state_rows", "combinations")),
            *map(Metric, dict.fromkeys(way_names(dataflow).values())),
            *map(Metric, LIMITED if is_limited else ()),
            *(Metric(f"shed_{name}") for name in (names if is_limited else ())),
            WATERMARK,
            *map(max_ts, dict.fromkeys(names.values())),
            *(Metric(f"{READ}{link}", Combine.LARGEST, -1) for link in links),
        ]
    )


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

    def __init__(
        self,
        names: Mapping[str, str],
        dataflow: SharedDataflow,
        links: Sequence[str] = (),
        *,
        is_limited: bool = False,
    ) -> None:
        self._names = names
        self._dataflow = dataflow
        self._ways = way_names(dataflow)
        self._is_limited = is_limited
        self.values = dataflow_metrics(names, dataflow, links, is_limited=is_limited).start()

    def count(
        self,
        level: int,
        messages: Sequence[LevelMessage],
        bucket: SharedBucket,
        feed_levels: Mapping[str, tuple[int, ...]],
        attributes: Mapping[str, int],
    ) -> None:
        """Counts what arrived and what is kept; `attributes` is how many each input has."""
        values, counts = self.values, bucket.counts
        for message in messages:
            match message:
                case InputProgress():
                    self._count_input(message, attributes[message.name])
                case LevelRows():
                    values["arrived_bytes"] += message.chunk.nbytes
                    if feed_levels.get(message.source, (0,))[0] == level:
                        values["sent"] += message.chunk.rows
                case Bounds():
                    values["arrived_bytes"] += len(message.body)
        inputs = {stream: name for name, stream in reversed(list(self._names.items()))}
        for stream, late in counts.late.items():
            values[f"late_{inputs[stream]}"] += late
        for relation, went in counts.went.items():
            values[self._ways[relation]] += went
        values[f"state_rows_level_{level}"] = sum(bucket.state_rows.values())
        values[f"combinations_level_{level}"] = counts.results
        values.update(
            answers=sum(counts.answers.values()),
            probes=counts.probes,
            state_rows=sum(bucket.state_rows.values()),
            state_bytes=sum(bucket.state_bytes.values()),
            memory_bytes=bucket.used_bytes,
            combinations=counts.results,
            stored=counts.stored,
        )
        if self._is_limited:
            self._count_shed(counts, inputs)

    def _count_shed(self, counts: SharedCounts, inputs: Mapping[str, str]) -> None:
        """Counts what the limit has cost; tuples by the input under whose name they were read."""
        values = self.values
        values.update(
            found=counts.found,
            missed_milli=round(1000 * counts.missed),
            values_left_out=counts.left_out,
        )
        relations = {one.name: one for one in self._dataflow.relations} if counts.shed else {}
        streams = {feed.name: feed.stream for feed in self._dataflow.feeds} if counts.shed else {}
        for name, shed in counts.shed.items():
            relation = relations[name]
            if relation.window is None:
                values["results_shed"] += shed
            elif relation.slot in self._names:
                values[f"shed_{relation.slot}"] += shed
            else:
                values[f"shed_{inputs[streams[relation.source]]}"] += shed

    def _count_input(self, message: InputProgress, attributes: int) -> None:
        values, name = self.values, message.name
        values[f"input_{name}"] += message.rows
        values["sent_by_all"] += message.rows * attributes
        values[f"null_times_{name}"] += message.null_times
        values[f"ahead_{name}"] += message.ahead
        values["arrived_bytes"] += len(message.frequent)
        newest = max_ts(self._names[name]).name
        values[newest] = max(values[newest], message.max_ts)
