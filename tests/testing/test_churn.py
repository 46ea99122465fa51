"""Queries come and go a hundred times, and workers hold what the present ones need."""

from __future__ import annotations

from watersmeet.plan.multiquery import Registered, plan_dataflow
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.sql import bind_query, parse_pipeline
from watersmeet.testing.cluster import Cluster
from watersmeet.testing.setup import Setup, queries_dataflow
from watersmeet.testing.sources import Arrived

STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) "
    f"WITH (format = 'json', path = '{name}', event_time = 'ts');\n"
    for name in ("s1", "s2")
)
PAIR = "SELECT a.v FROM s1 [RANGE 9 SECONDS] AS a, s2 [RANGE 9 SECONDS] AS b WHERE a.k = b.k AND a.v > {}"
LEVELS, BUCKETS, WORKERS = 2, 2, 3


def test_workers_hold_buckets_of_the_present_queries_alone() -> None:
    streams = {stream.name: stream for stream in parse_pipeline(STREAMS).streams}
    cluster, setup = Cluster(WORKERS, seed=3), Setup(partitions=BUCKETS)
    kept: SharedDataflow | None = None
    answers = 0
    for change in range(100):
        there = {n: bind_query(PAIR.format(-n), list(streams.values())) for n in (0, change + 1)}
        registered = [Registered(f"q{n}", n, query) for n, query in there.items()]
        kept = plan_dataflow(registered, list(streams.values()), LEVELS, kept=kept)
        rows = {name: [{"k": change % 5, "v": change, "ts": 1_000_000 * change}] for name in streams}
        dataflow = queries_dataflow(kept, there, list(streams.values()), setup)
        output = dataflow.run(cluster, Arrived(streams, rows, 0), is_end=False)
        answers += len(output.answers["q0"])
        cluster.commit()
        cluster.move()  # every bucket goes to another worker, and leaves its copy behind
        assert sum(map(len, cluster.workers)) <= LEVELS * BUCKETS * WORKERS
    assert answers >= 99
    assert all(len(worker) <= LEVELS * BUCKETS for worker in cluster.workers)
