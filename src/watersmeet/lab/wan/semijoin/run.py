"""A semijoin plan executed on a simulated WAN: streams in, answers and what they cost out.

After Tran and Lee (2010), sections 3 and 4. Every step of a plan (plan/sites/semijoin) is a one-way join
protocol of its own between two sites. Under linear ordering the output of a step is the source of the next;
under tree ordering the results of a level are a stream for the level above. Tuples come to their sites at
their event times; every tau a site closes its batch.

Guarantees: with delays within the bound, or with heartbeats, the answers are those of the query (oracle),
each once, whatever the plan. `late` counts the messages that took longer than the bound, which only
heartbeats reveal.

What steps share is what their model says. Under the paper's printed formulas they share nothing: two steps
that probe the same window at the same site keep it twice, as equation 1 counts it. Under those of what is
shipped (plan/sites/semijoin/shipped.py) one copy serves them all, and a whole batch crosses a link once,
whichever steps need it. Processing takes no virtual time; it is charged to the ledger.

    run = execute(plan, model, feeds_of(query, streams), Settings(delay_us=50_000))
    run.rows(query); run.wan.traffic; run.ledger.seconds
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.lab.simulation import SECOND_US, Simulator
from watersmeet.lab.wan.feed import Feed, row_of
from watersmeet.lab.wan.network import Link, Wan
from watersmeet.lab.wan.semijoin.by_interval import ends_by_interval, items_by_interval
from watersmeet.lab.wan.semijoin.ledger import Ledger
from watersmeet.oracle.evaluate import evaluate
from watersmeet.plan.sites.semijoin.model import SemijoinModel
from watersmeet.plan.sites.semijoin.multiway.delays import plan_delays
from watersmeet.plan.sites.semijoin.multiway.step_sizes import step_sizes
from watersmeet.plan.sites.semijoin.multiway.steps import Pace, Running, running_steps, tree_levels
from watersmeet.plan.sites.semijoin.oneway.halves import Receiver, Source, Target
from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item, Member
from watersmeet.plan.sites.semijoin.oneway.messages import (
    HEARTBEAT_BYTES,
    Actions,
    Output,
    Ship,
    Wasted,
    Work,
)
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.query import Query

MEASURING_RUNS = 12  # to find a bound that the delays of its own run keep


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a plan is run; without a bound on delays one is measured, unless heartbeats make it needless."""

    delay_us: int | None = None  # the bound on one shipment, from sending to arrival
    heartbeats: bool = False
    queueing: bool = True  # False: a transfer is charged for, and delays nothing
    jitter_us: int = 0
    measured: range | None = None  # intervals that the ledger counts; None: all
    count_only: bool = False  # answers as a number
    silent: bool = False  # no answers at all: only what is shipped matters
    seed: int = 0


@dataclass(kw_only=True)
class SemijoinRun:
    """The results of a plan; an answer has a member for each input, in FROM order."""

    plan: SemijoinPlan
    wan: Wan
    ledger: Ledger
    delay_us: int | None
    answers: list[tuple[Member, ...]] = field(default_factory=list)
    count: int = 0  # of answers, in the intervals that are measured
    late: int = 0
    wasted: int = 0  # tuples that SM-B shipped in vain

    def rows(self, query: Query) -> list[tuple[Any, ...]]:
        """The answers as the query selects them."""
        if query.distinct or query.aggregate:
            raise ConfigurationError("the WAN lab answers joins without DISTINCT and aggregates")
        found = []
        for answer in self.answers:
            t = max(member.ts for member in answer)
            rows = {
                item.alias: row_of(item, member.payload)
                for item, member in zip(query.inputs, answer, strict=True)
            }
            if all(evaluate(condition, rows, t) is True for condition in query.residual):
                found.append(tuple(evaluate(output.expr, rows, t) for output in query.select))
        return found


def execute(
    plan: SemijoinPlan, model: SemijoinModel, feeds: Mapping[str, Feed], settings: Settings | None = None
) -> SemijoinRun:
    """Runs a plan over all tuples of the feeds."""
    settings = settings or Settings()
    missing = [alias for alias in model.graph.aliases if alias not in feeds]
    if missing:
        raise ConfigurationError(f"no tuples are given for the inputs {', '.join(missing)}")
    if settings.delay_us is not None or settings.heartbeats:
        return Execution(plan, model, feeds, settings).run()
    return _with_measured_delay(plan, model, feeds, settings)


def _with_measured_delay(
    plan: SemijoinPlan, model: SemijoinModel, feeds: Mapping[str, Feed], settings: Settings
) -> SemijoinRun:
    """A run whose bound its own delays keep, found by raising it to what was measured."""
    bound = Execution(plan, model, feeds, replace(settings, heartbeats=True)).run().wan.delay_bound_us()
    for _ in range(MEASURING_RUNS):
        run = Execution(plan, model, feeds, replace(settings, delay_us=bound)).run()
        if run.wan.delay_bound_us() <= bound:
            return run
        bound = max(2 * bound, run.wan.delay_bound_us())
    raise ConfigurationError(
        f"no bound on delays was found: they grow with it, beyond {bound} us; use heartbeats or faster links"
    )


class Execution:
    """A run of a plan: its sites, the messages between them, and what they cost."""

    def __init__(
        self, plan: SemijoinPlan, model: SemijoinModel, feeds: Mapping[str, Feed], settings: Settings
    ) -> None:
        self.plan, self.model, self.settings = plan, model, settings
        self.tau_us = round(model.interval_s * SECOND_US)
        self.windows = {alias: feed.window for alias, feed in feeds.items()}
        times = [ts for feed in feeds.values() for ts in (*feed.times[:1], *feed.times[-1:])]
        first, last = (min(times) // self.tau_us, max(times) // self.tau_us) if times else (0, -1)
        self.intervals = range(first, last + 1)
        self.levels = tree_levels(plan, self.windows, first)
        self.batches = {alias: items_by_interval(feed, self.tau_us) for alias, feed in feeds.items()}
        self.ending = {alias: ends_by_interval(feed, self.tau_us) for alias, feed in feeds.items()}
        self.delays = plan_delays(plan, settings.delay_us or 0, self._notice_delays())
        pace = Pace(
            self.tau_us,
            first,
            settings.heartbeats,
            settings.count_only,
            settings.silent,
            vectors="counts" if model.reading == "printed" else "changes",
            costs=model.costs,
        )
        sizes = step_sizes(plan, model)
        self.steps = running_steps(plan, model.graph, sizes, self.windows, pace, self.delays)
        sites = [stream.site for stream in model.streams]
        simulator = Simulator(first * self.tau_us)
        wan = Wan(simulator, sites, self._links(sites), random.Random(f"{settings.seed} wan"))
        ledger = Ledger(model.interval_s, settings.measured)
        self.result = SemijoinRun(plan=plan, wan=wan, ledger=ledger, delay_us=settings.delay_us)
        self._batches_there: set[Hashable] = set()  # whole batches that have crossed a link

    def run(self) -> SemijoinRun:
        for interval in self.intervals:
            self._schedule(interval)
        self.simulator.run()
        return self.result

    @property
    def simulator(self) -> Simulator:
        return self.result.wan.simulator

    def _links(self, sites: Sequence[str]) -> dict[tuple[str, str], Link]:
        links = {}
        for source in sites:
            for target in sites:
                link = Link.of(self.model.network.link(source, target), self.settings.jitter_us)
                links[source, target] = link if self.settings.queueing else replace(link, bytes_per_s=None)
        return links

    def _notice_delays(self) -> dict[int, int]:
        """How long notice of ended members may take to each level."""
        remote = {
            number: any(
                self.model.stream(level.order[member]).site != level.site for member in level.open_members
            )
            for number, level in self.levels.items()
        }
        return {number: (self.settings.delay_us or 0) if far else 0 for number, far in remote.items()}

    def _schedule(self, interval: int) -> None:
        closing = (interval + 1) * self.tau_us
        self.simulator.at(closing, self._tick, interval)
        if self.settings.heartbeats:
            return
        for step, delay in zip(self.steps, self.delays, strict=True):
            if step.source.gated:
                at = closing + delay.probe_us
                self.simulator.at(at, self._deadline, step, interval, priority=2 * step.level + 1)
        for number in self.levels:
            at = closing + self.delays_of_level(number)
            self.simulator.at(at, self._close, number, priority=2 * number + 2)

    def delays_of_level(self, number: int) -> int:
        """When a level's results of an interval are complete."""
        pair = self.delays[2 * number : 2 * number + 2]
        return max(*(delay.output_us for delay in pair), self._notice_delays()[number])

    def _tick(self, interval: int) -> None:
        """Every site closes its batch of an interval."""
        for alias in self.model.graph.aliases:
            items = self.batches[alias].get(interval, [])
            ended = self.ending[alias].get(interval, [])
            self._feed((alias,), interval, items, ended)
            for number, level in self.levels.items():
                for member in level.open_members:
                    if level.order[member] == alias:
                        self._notify(number, member, interval, ended)

    def _feed(
        self, side: tuple[str, ...], interval: int, items: Sequence[Item], ended: Sequence[Ended]
    ) -> None:
        """A batch of a stream, or of a level, to the steps that start from it or probe it."""
        for step in self.steps:
            if step.plan.target == side and step.leads:
                self._perform(step, step.target, step.target.batch(interval, items, ended))
            elif step.plan.source == side and step.starts and (items or self.settings.heartbeats):
                self._perform(step, step.source, step.source.batch(interval, items, step.probe))

    def _deadline(self, step: Running, interval: int) -> None:
        self._perform(step, step.source, step.source.deadline(interval))

    def _perform(self, step: Running, half: Source | Target, actions: Actions) -> None:
        for action in actions:
            match action:
                case Work(interval, term, seconds):
                    self.result.ledger.work(step.number, interval, term, seconds)
                case Ship():
                    self._ship(step, half, action)
                case Output():
                    if action.count or self.settings.heartbeats:
                        self._hand_on(self.steps[step.served[action.probe]], action)
                case Wasted(interval, tuples):
                    self.result.wasted += tuples if self.result.ledger.counts(interval) else 0

    def _ship(self, step: Running, half: Source | Target, action: Ship) -> None:
        """A message to the other half; a batch that is there already takes no bytes."""
        from_source = half is step.source
        other = step.target if from_source else step.source
        assert isinstance(other, Receiver), f"{type(other).__name__} expects no messages"
        ends = (step.plan.source_site, step.plan.target_site)
        way = ends if from_source else (ends[1], ends[0])
        message, size = action.message, action.bytes
        flow = step.plan.flow(of_source=from_source)
        if action.batch and flow is not None:
            batch = (flow, way, message.interval)
            if batch in self._batches_there:
                size -= action.batch
            self._batches_there.add(batch)
        owner = step.served[getattr(message, "probe", 0)]
        self._send(owner, message.interval, action.term, way, (size, action.framing),
                   self._receive, step, other, message)  # fmt: skip

    def _send(
        self, step: int, interval: int, term: str, way: tuple[str, str], size: tuple[float, float],
        deliver: Callable[..., None], *arguments: Any,
    ) -> None:  # fmt: skip
        """A message of so many bytes of content and of framing."""
        if way[0] != way[1]:
            link = self.model.network.link(*way)
            self.result.ledger.ship(step, interval, term, way, link, *size)
        now = self.simulator.now_us
        self.result.wan.send(*way, sum(size), self._arrive, now, deliver, *arguments)

    def _arrive(self, sent_us: int, deliver: Callable[..., None], *arguments: Any) -> None:
        """With heartbeats a message says when it was sent, so that a delay above the bound shows."""
        bound = self.settings.delay_us
        if self.settings.heartbeats and bound is not None and self.simulator.now_us - sent_us > bound:
            self.result.late += 1
        deliver(*arguments)

    def _receive(self, step: Running, half: Any, message: Any) -> None:
        self._perform(step, half, half.receive(message))

    def _hand_on(self, step: Running, output: Output) -> None:
        """The output of a step becomes the source of the next, a part of a level, or answers."""
        if step.feeds is None:
            self._answer(step, output)
        elif self.plan.ordering == "linear":
            after = self.steps[step.feeds]
            batch = after.source.batch(output.interval, output.items, after.probe)
            self._perform(after, after.source, batch)
        else:
            level = self.levels[step.level]
            level.add(output.interval, [step.in_level_order(item) for item in output.items])
            self._note_received(step.level, output.interval, f"step {step.number}")

    def _answer(self, step: Running, output: Output) -> None:
        if self.result.ledger.counts(output.interval):
            self.result.count += output.count
        self.result.answers += [step.answer(item) for item in output.items]

    def _notify(self, number: int, member: int, interval: int, ended: Sequence[Ended]) -> None:
        """Notice of ended tuples from a member's site to a level's home."""
        if ended or self.settings.heartbeats:
            level = self.levels[number]
            home = self.model.stream(level.order[member]).site
            size = (level.notice_bytes(ended), HEARTBEAT_BYTES if self.settings.heartbeats else 0.0)
            self._send(2 * number, interval, "ship ends", (home, level.site), size,
                       self._learn, number, member, interval, ended)  # fmt: skip

    def _learn(self, number: int, member: int, interval: int, ended: Sequence[Ended]) -> None:
        self.levels[number].learn(member, ended)
        self._note_received(number, interval, f"member {member}")

    def _note_received(self, number: int, interval: int, what: str) -> None:
        """With heartbeats a level closes an interval when all of it and of earlier ones has arrived."""
        if self.settings.heartbeats:
            level = self.levels[number]
            level.note_received(interval, what)
            while level.is_complete:
                self._close(number)

    def _close(self, number: int) -> None:
        level = self.levels[number]
        interval = level.next_interval
        items, ended = level.close()
        self._feed(level.order, interval, items, ended)
