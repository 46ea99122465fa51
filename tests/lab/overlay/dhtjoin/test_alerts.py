"""DHTJoin while nodes and sources fail (extended version, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

from tests.lab.overlay.dhtjoin.rings import join, pose, publish
from watersmeet.lab.overlay.chord.living_ring import LivingRing
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.dhtjoin.alerts import DetectionPolicy
from watersmeet.lab.overlay.dhtjoin.network import DhtJoinNetwork, QueryArrival, start_dhtjoin
from watersmeet.lab.overlay.dhtjoin.operators import key_text
from watersmeet.lab.overlay.dhtjoin.protocol import Settings
from watersmeet.lab.simulation import constant_delay, random_delay
from watersmeet.oracle.oracle import bag
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics
from watersmeet.query import Query

DETECTION = DetectionPolicy(every_us=5, silent_us=10, answer_us=5)


class TestFailures:
    """Section 4.2: alerts let producers rest while a stream is missing (Procedures 1 and 2)."""

    def outage(self, detection: DetectionPolicy | None, others: Sequence[Query] = ()) -> DhtJoinNetwork:
        """x and y come all the time; z, at node 3, is down from 200 to 600. Each tuple has a partner."""
        run = start_dhtjoin(StableRing(range(8), 3), Settings(detection=detection), delay=constant_delay(1))
        # x and y join first: the plan must not be left to chance.
        known = Statistics(
            {name: StreamStatistics(rate) for name, rate in (("x", 1.0), ("y", 1.0), ("z", 50.0))}
        )
        query = join(["x.b = y.b", "y.c = z.c"], window_us=8)
        run.submit_at(QueryArrival(0, 0, "q", query), known)
        for number, other in enumerate(others):
            run.submit_at(QueryArrival(0, 0, f"other {number}", other), known)
        for at_us in range(20, 1000, 4):
            value = at_us // 4 % 5
            publish(run, "x", at_us, node=7, b=value, a=at_us)
            publish(run, "y", at_us + 1, node=6, b=value, c=value + 5)
            publish(run, "z", at_us + 2, node=3, c=value + 5)
        source = run.protocol.node(3)
        run.overlay.simulator.at(200, source.stopped.add, "z")
        run.overlay.simulator.at(600, source.stopped.discard, "z")
        run.overlay.run(until_us=1100)
        return run

    def test_suspended_producers_send_less_and_resume(self) -> None:
        without, with_alerts = self.outage(None), self.outage(DETECTION)
        assert with_alerts.traffic["index partial results"] < 0.75 * without.traffic["index partial results"]
        assert with_alerts.traffic["index tuple"] < 0.8 * without.traffic["index tuple"]
        late = [row for row in with_alerts.answers["q"] if row[0] > 650]
        assert late
        assert bag(late) == bag(row for row in without.answers["q"] if row[0] > 650)

    def test_no_alert_and_no_loss_without_an_outage(self) -> None:
        def steady(detection: DetectionPolicy | None) -> DhtJoinNetwork:
            run = start_dhtjoin(
                StableRing(range(8), 3), Settings(detection=detection), delay=constant_delay(1)
            )
            pose(run, join(["x.b = y.b", "y.c = z.c"], window_us=8))
            for at_us in range(20, 300, 4):
                for stream, node in (("x", 7), ("y", 6), ("z", 3)):
                    publish(run, stream, at_us, node=node, b=at_us % 5, c=at_us % 5)
            run.overlay.run(until_us=400)
            return run

        tested = steady(DETECTION)
        assert tested.traffic["alert"] == 0
        assert bag(tested.answers["q"]) == bag(steady(None).answers["q"])

    def test_a_shared_producer_goes_on_for_the_other_query(self) -> None:
        """Procedure 2, line 1: an alert is not propagated below what another query needs."""
        other = join(["x.b = y.b"], window_us=8)
        alone = self.outage(None, [other])
        shared = self.outage(DETECTION, [other])
        assert 0 < shared.traffic["alert"] < self.outage(DETECTION).traffic["alert"]
        assert bag(shared.answers["other 0"]) == bag(alone.answers["other 0"])
        assert shared.traffic["index partial results"] < 0.75 * alone.traffic["index partial results"]

    def test_when_the_last_query_of_a_shared_producer_rests_the_sources_rest(self) -> None:
        twin = join(["x.b = y.b", "y.c = z.c"], window_us=8)
        alone, twins = self.outage(DETECTION), self.outage(DETECTION, [twin])
        assert twins.traffic["index tuple"] == alone.traffic["index tuple"]
        assert bag(twins.answers["other 0"]) == bag(twins.answers["q"]) == bag(alone.answers["q"])

    def test_gossip_brings_a_query_to_nodes_that_the_tree_missed(self) -> None:
        """Section 4.1, on the running protocol: node 16 is gone, and nobody has noticed yet."""

        def knowing(gossip_every_us: int | None) -> int:
            ring = LivingRing(StableRing(range(32), 5))
            run = start_dhtjoin(ring, Settings(gossip_every_us=gossip_every_us), delay=constant_delay(1))
            run.overlay.fail(16)
            pose(run, join(["x.b = y.b"]))
            run.overlay.run()
            return sum("q" in run.protocol.node(node).table.entries for node in ring.nodes)

        assert knowing(None) == 16
        assert knowing(2) == 31

    def test_a_node_that_gossip_told_first_still_answers_for_its_arc(self) -> None:
        """Gossip is far ahead of a slow tree, yet the tree sends its n - 1 messages."""
        run = start_dhtjoin(StableRing(range(32), 5), Settings(gossip_every_us=1), delay=random_delay(50))
        pose(run, join(["x.b = y.b"]))
        run.overlay.run()
        assert run.traffic["disseminate"] == 31
        assert run.traffic["gossip"] > 0

    def test_what_a_silent_failure_loses_is_counted(self) -> None:
        run = start_dhtjoin(LivingRing(StableRing(range(8), 3)))
        pose(run, join(["x.b = y.b"]))
        holder = run.overlay.owner(key_text(1))
        source = (holder + 2) % 8
        for at_us in (1, 2):
            publish(run, "x", at_us, node=source, b=1)
        run.overlay.run()
        assert run.overlay.fail(holder) == 2
        run.overlay.ring.stabilise()  # type: ignore[attr-defined]
        publish(run, "y", 3, node=source, b=1)
        run.overlay.run()
        assert run.answers["q"] == []
