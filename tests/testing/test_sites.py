"""Plans across sites in process: each answer once, whatever the plan, the delays and the restarts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.compared import Case, Compared, tuples_of
from tests.lab.wan.pmjoin.test_pmjoin import drawn_plan
from tests.strategies import TIME_WINDOWS, cases
from watersmeet.errors import DataError
from watersmeet.lab.wan.arrivals import arrivals_of
from watersmeet.lab.wan.pmjoin.network import PmjoinNetwork
from watersmeet.oracle.oracle import Row, Tuple, run
from watersmeet.plan.sites.change_over import EVER, Tenure
from watersmeet.plan.sites.plan_tree import MJoin, PartitionPlan, PlanNode, PMJoin, StreamLeaf
from watersmeet.plan.sites.stream_partition import Partition
from watersmeet.plan.sites.value_router import ValueRouter
from watersmeet.plan.statistics.value_groups import Cell
from watersmeet.query import Query
from watersmeet.spark.sites.plan_tasks import Program
from watersmeet.spark.tuning import Tuning
from watersmeet.sql import bind_query
from watersmeet.testing import declare
from watersmeet.testing.setup import Setup
from watersmeet.testing.site_links import TopicLog
from watersmeet.testing.sites import SiteInProcess, SitesInProcess

Streams = dict[str, list[Tuple]]


def within_lateness(query: Query, streams: Streams) -> Query:
    """The query with streams that may be exactly as late as their tuples are."""

    def lateness(tuples: Sequence[Tuple]) -> int:
        newest, late = tuples[0].ts if tuples else 0, 0
        for one in tuples:
            newest = max(newest, one.ts)
            late = max(late, newest - one.ts)
        return late

    found = {
        stream.name: replace(stream, lateness_us=lateness(streams[stream.name])) for stream in query.streams
    }
    return replace(
        query, inputs=tuple(replace(item, stream=found[item.stream.name]) for item in query.inputs)
    )


class Play:
    """Plays streams to sites in batches of any cut, with links as slow as they like."""

    def __init__(
        self,
        query: Query,
        plan: PlanNode | Mapping[str, Program],
        streams: Streams,
        rng: random.Random,
        *,
        topics: bool = False,
        tenure: Tenure = EVER,
    ) -> None:
        tuning = Tuning(replayed_batches=rng.choice([1, 3, 32]))
        partitions, seed = rng.choice([1, 2, 3]), rng.randrange(10**6)
        setup = Setup(partitions=partitions, workers=2, seed=seed, map_tasks=2, tuning=tuning)
        self.run = SitesInProcess(query, plan, setup, topics=topics, tenure=tenure)
        self.left = {
            (site.program.site, name): list(streams[name])
            for site in self.run.sites.values()
            for name in site.streams
        }
        self.rng = rng
        self.most = 0  # tuples in a batch; 0: any number
        self.found: list[Row] = []
        self.ended: set[str] = set()

    def to_the_end(self) -> list[Row]:
        """All answers, once every site has ended by itself."""
        sites = list(self.run.sites.values())
        while not all(site.has_ended for site in sites):
            self.batch(self.rng.choice([site for site in sites if not site.has_ended]))
        return self.found

    def batch(self, site: SiteInProcess) -> None:
        """A micro-batch at a site, of what it likes to take."""
        name = site.program.site
        self._disturb(site)
        rows = {stream: self._take(name, stream) for stream in site.streams}
        is_left = any(self.left[name, stream] for stream in site.streams)
        ends = not is_left and name not in self.ended and self.rng.random() < 0.5
        files = {source: self._files(source, name) for source in site.program.sources}
        if ends:
            self.ended.add(name)
        self.found += site.step(rows, files, is_end=ends).answers

    def _take(self, site: str, stream: str) -> list[Tuple]:
        waiting = self.left[site, stream]
        count = self.rng.choice([0, 1, 3, self.most or len(waiting)])
        self.left[site, stream] = waiting[count:]
        return waiting[:count]

    def _files(self, source: str, target: str) -> list[int]:
        """Some of what is on the link, in any order."""
        unread = self.run.links[source, target].unread
        return self.rng.sample(unread, self.rng.randint(0, len(unread)))

    def _disturb(self, site: SiteInProcess) -> None:
        match self.rng.randrange(8):
            case 0:
                site.restart(workers_stay=self.rng.random() < 0.5)
            case 1:
                site.repeat_next_batch()
            case 2:
                site.cluster.failures += 1
            case 3:
                site.cluster.move()


def test_every_plan_gives_the_oracles_answers_across_sites(examples: Callable[[int], settings]) -> None:
    """Any join graph, time windows, sites, plan, links, delays and restarts; nothing is kept at the end."""
    compared = Compared()
    linked = []

    @examples(16)
    @given(cases(2, 4, kinds=("plain",), windows=TIME_WINDOWS), st.integers(0, 10**6))
    def check(case: Case, seed: int) -> None:
        query, batches = case
        rng = random.Random(seed)
        streams = tuples_of(query, batches)
        query = within_lateness(query, streams)
        play = Play(query, drawn_plan(query, rng), streams, rng, topics=rng.random() < 0.5)
        found = play.to_the_end()
        compared.same(found, run(query, [streams], flush=True).rows)
        linked.append(len(play.run.links))
        assert all(site.state_rows == 0 for site in play.run.sites.values())

    check()
    compared.assert_answers(0.3)
    assert sum(count > 1 for count in linked) > 0.15 * len(linked)


def test_what_crosses_links_is_what_crosses_in_the_simulator(examples: Callable[[int], settings]) -> None:
    crossing = []

    @examples(10)
    @given(cases(2, 4, kinds=("plain",), windows=TIME_WINDOWS, payloads=()), st.integers(0, 10**6))
    def check(case: Case, seed: int) -> None:
        query, batches = case
        rng = random.Random(seed)
        streams = tuples_of(query, batches)
        query = within_lateness(query, streams)
        plan = drawn_plan(query, rng)
        play = Play(query, plan, streams, rng, topics=rng.random() < 0.5)
        play.to_the_end()
        arrivals = arrivals_of(query, streams)
        start = min((arrival.at_us for arrival in arrivals), default=0)
        network = PmjoinNetwork(query, plan, start_us=start)
        end = max((arrival.at_us for arrival in arrivals), default=0) + 10
        traffic = network.run(arrivals, until_us=end).traffic
        measured = play.run.bytes_by_link
        assert measured == {way: seen.bytes for way, seen in traffic.items()}
        crossing.append(bool(measured))

    check()
    assert sum(crossing) > 0.3 * len(crossing)


SQL = "SELECT a.k, b.k AS k_b FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k"


def two_sites() -> tuple[Query, PlanNode]:
    """All at oslo: paris sends its tuples there."""
    streams = [
        declare(name, "k BIGINT, ts TIMESTAMP", event_time="ts", lateness="5 seconds") for name in "ab"
    ]
    query = bind_query(SQL, streams)
    leaves = (StreamLeaf("a", "paris", 1.0, 8.0), StreamLeaf("b", "oslo", 1.0, 8.0))
    return query, MJoin(leaves, "oslo", 1.0, 16.0)


def test_a_tuple_is_late_by_its_own_stream_at_its_own_site() -> None:
    """Later than declared: dropped and counted before it is sent; within: no delay of a link loses it."""
    query, plan = two_sites()
    sites = SitesInProcess(query, plan)
    paris, oslo = sites.sites["paris"], sites.sites["oslo"]
    paris.step({"a": [(1, "00:00:20")]})
    late = paris.step({"a": [(2, "00:00:14"), (3, "00:00:15")]})
    assert late.metrics["late_a"] == 1
    oslo.step({"b": [(2, "00:00:15"), (3, "00:00:16"), (1, "00:00:29")]})
    oslo.step({"b": [(7, "01:00:00")]})
    paris.step(is_end=True)
    found = [oslo.step({}, {"paris": [number]}).answers for number in (2, 0, 1)]
    assert sorted(row for rows in found for row in rows) == [(1, 1), (3, 3)]


def test_a_site_says_nothing_where_there_is_nothing_new() -> None:
    """Or two sites would wake each other for ever."""
    query, plan = two_sites()
    sites = SitesInProcess(query, plan)
    log = sites.links["paris", "oslo"]
    paris = sites.sites["paris"]
    paris.step({"a": [(1, "00:00:20")]})
    paris.step({"a": []})
    assert len(log.files) == 1
    paris.step({"a": [(1, "00:00:21")]})
    assert len(log.files) == 2


def test_another_plan_on_a_link_is_refused_by_name() -> None:
    query, plan = two_sites()
    sites = SitesInProcess(query, plan)
    other = SitesInProcess(query, replace(plan, tuple_bytes=17.0))
    other.sites["paris"].step({"a": [(1, "00:00:20")]})
    sites.links["paris", "oslo"].files += other.links["paris", "oslo"].files
    plans = [run.programs["paris"].fingerprint for run in (other, sites)]
    with pytest.raises(DataError, match=f"paris sends by plan {plans[0]}, and oslo runs plan {plans[1]}"):
        sites.sites["oslo"].step({}, {"paris": [0]})


def test_the_results_of_a_join_are_no_further_than_its_slowest_input() -> None:
    """a has ended and b is an hour behind: c must be kept at oslo for what b will find in a."""
    streams = [declare(name, "k BIGINT, ts TIMESTAMP", event_time="ts") for name in "abc"]
    text = (
        "SELECT a.k FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 HOUR] WHERE a.k = b.k AND b.k = c.k"
    )
    leaf = {
        name: StreamLeaf(name, site, 1.0, 8.0)
        for name, site in zip("abc", ("rome", "rome", "oslo"), strict=True)
    }
    pairs = MJoin((leaf["a"], leaf["b"]), "rome", 1.0, 16.0)
    sites = SitesInProcess(bind_query(text, streams), MJoin((pairs, leaf["c"]), "oslo", 1.0, 24.0))
    rome, oslo = sites.sites["rome"], sites.sites["oslo"]
    oslo.step({"c": [(1, "10:00:00")]})
    oslo.step({"c": [(1, "13:00:00")]})
    rome.step({"a": [(1, "10:00:00"), (1, "13:00:00")], "b": [(2, "09:30:00")]})
    oslo.step({}, {"rome": [0]})
    assert oslo.state_rows == 2
    rome.step({"b": [(1, "10:10:00")]})
    assert oslo.step({}, {"rome": [1]}).answers == [(1,)]
    rome.step({"b": [(1, "13:00:00")]})
    assert oslo.step({}, {"rome": [2]}).answers == [(1,)]
    assert oslo.state_rows < 5, "what can meet nothing any more is gone"


def test_a_site_whose_own_input_has_ended_waits_for_its_links() -> None:
    query, plan = two_sites()
    sites = SitesInProcess(query, plan)
    paris, oslo = sites.sites["paris"], sites.sites["oslo"]
    oslo.step({"b": [(1, "00:00:20")]})
    oslo.step(is_end=True)
    assert not oslo.has_ended
    paris.step({"a": [(1, "00:00:25")]})
    paris.step(is_end=True)
    assert oslo.step({}, {"paris": [0]}).answers == [(1, 1)]
    oslo.step({}, {"paris": [1]})
    assert oslo.has_ended
    assert oslo.state_rows == 0


def test_a_result_goes_where_its_value_is_joined_and_nowhere_else() -> None:
    """Results of a and b, made in rome: of y = 1 c is shipped to rome, of y = 2 they are shipped to oslo."""
    columns = {"a": "x BIGINT", "b": "x BIGINT, y BIGINT", "c": "y BIGINT"}
    streams = [declare(name, f"{own}, ts TIMESTAMP", event_time="ts") for name, own in columns.items()]
    window = "[RANGE 1 HOUR]"
    text = f"SELECT c.y FROM a {window}, b {window}, c {window} WHERE a.x = b.x AND b.y = c.y"
    query = bind_query(text, streams)
    c = StreamLeaf("c", "oslo", 1.0, 8.0)
    pairs = MJoin((StreamLeaf("a", "rome", 1.0, 8.0), StreamLeaf("b", "rome", 1.0, 8.0)), "rome", 1.0, 16.0)
    left = StreamLeaf(pairs.name, "rome", 1.0, 16.0)
    cells = [Cell(value=1), Cell(value=2)]
    parts = [Partition(str(cell.value), np.array([n]), np.array([1.0])) for n, cell in enumerate(cells)]
    plan = PMJoin(
        attribute=query.graph.classes[1].pretty(),
        inputs=(pairs, c),
        partitions=(
            PartitionPlan("1", MJoin((c, left), "rome", 1.0, 24.0)),
            PartitionPlan("2", MJoin((left, c), "oslo", 1.0, 24.0)),
        ),
        rate_per_s=1.0,
        tuple_bytes=24.0,
        router=ValueRouter("rate", cells, parts),
    )
    sites = SitesInProcess(query, plan)
    rome, oslo = sites.sites["rome"], sites.sites["oslo"]
    times = ["00:00:01", "00:00:02", "00:00:03"]
    rome.step({"a": [(7, times[0])], "b": [(7, 1, times[0]), (7, 2, times[1]), (7, 2, times[2])]})
    oslo.step({"c": [(1, times[0]), (2, times[1])]})
    found = rome.step({}, {"oslo": [0]}).answers + oslo.step({}, {"rome": [0]}).answers
    assert sorted(found) == [(1,), (2,), (2,)]
    crossed = {way: list(log.counts.rows.values()) for way, log in sites.links.items()}
    assert crossed == {("rome", "oslo"): [2], ("oslo", "rome"): [1]}


@pytest.mark.parametrize("seed", range(2))
def test_a_batch_that_is_sent_twice_in_many_messages_counts_once(seed: int) -> None:
    """The first try breaks off, and its rows had another order: what came of it is not sent anew."""
    query, plan = two_sites()
    sites = SitesInProcess(query, plan, Setup(partitions=2, seed=seed), topics=True)
    paris, oslo = sites.sites["paris"], sites.sites["oslo"]
    log = sites.links["paris", "oslo"]
    assert isinstance(log, TopicLog)
    keys = [n // 3 for n in range(120)]
    while not len(log.sent) < len(log.files) < 2 * len(log.sent):
        paris.step({"a": [(key, "00:00:20") for key in keys]})
    oslo.step({"b": [(key, "00:00:20") for key in range(40)]})
    found = []
    while log.unread:
        some = random.Random(seed).sample(log.unread, (len(log.unread) + 2) // 3)
        found += oslo.step({}, {"paris": some}).answers
    batches = paris.cluster.batch
    assert sorted(found) == sorted([(key, key) for key in keys] * batches)
