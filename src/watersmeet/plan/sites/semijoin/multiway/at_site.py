"""One lane of a semijoin plan at one site: tuples and messages in, messages and answers out.

After Tran and Lee (2010), section 4. The site has the halves of the plan's steps that are at it, each pair
for all steps that share a copy, and the levels of a tree whose home it is. Batches go from streams, steps and
levels to the halves they are for, and messages between halves at this site as those between sites. Nothing
here touches the network, the clock or a random generator.

Guarantees: the answers are those of the query, each at one site, once, whatever the delays (paced.py). What
is shipped is what the simulator ships for the same tuples (lab/wan/semijoin/run.py), byte for byte.

A whole batch that several steps ship over one link costs its bytes once, and crosses once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from watersmeet.plan.sites.semijoin.cost import ProcessingCosts
from watersmeet.plan.sites.semijoin.multiway.paced import PacedSource, PacedTarget
from watersmeet.plan.sites.semijoin.multiway.semijoin_program import (
    SemijoinProgram,
    sends_to_source,
    sends_to_target,
)
from watersmeet.plan.sites.semijoin.multiway.steps import Pace, Running, running_steps, tree_levels
from watersmeet.plan.sites.semijoin.multiway.tree_level import Level
from watersmeet.plan.sites.semijoin.oneway.items import Item, Member
from watersmeet.plan.sites.semijoin.oneway.messages import Actions, Message, Output, Ship
from watersmeet.query import BEGINNING, NEVER, JoinGraph, Window

Flow = tuple[str, int, int]  # what a mark is of: its kind, the copy, and the probe
COPIED, ASKED, SENT = "copied", "asked", "sent"
FREE = ProcessingCosts(0.0, 0.0, 0.0, 0.0)  # nobody counts the time that processing takes


@dataclass(frozen=True, slots=True)
class Posted:
    """A message on its way to a half of a copy; its bytes are those of its content."""

    copy: int
    to_source: bool
    message: Message
    bytes: float


@dataclass(frozen=True, slots=True)
class Mail:
    """What goes to another site at once, in order: messages, and the marks that hold after them."""

    posted: Sequence[Posted] = ()
    marks: Mapping[Flow, int] = field(default_factory=dict)


@dataclass
class _Copy:
    """A pair of halves, as far as they are at this site."""

    number: int
    running: Running  # the first of the steps it serves
    source: PacedSource | None
    target: PacedTarget | None


def interval_mark(bound_us: int, interval_us: int) -> int:
    """The last interval that is over when no earlier tuple than at this bound can come."""
    if bound_us in (BEGINNING, NEVER):
        return bound_us
    return bound_us // interval_us - 1


class SiteLane:
    """The halves and levels of one lane at one site."""

    def __init__(self, program: SemijoinProgram, graph: JoinGraph, windows: Mapping[str, Window]) -> None:
        self.program = program
        pace = Pace(program.interval_us, 0, marks=True, costs=FREE)
        self.steps = running_steps(program.plan, graph, program.sizes, windows, pace)
        self.copies = [self._copy(number, step) for number, step in enumerate(self._leaders())]
        self._copy_of = {n: copy for copy in self.copies for n in copy.running.served}
        levels = tree_levels(program.plan, windows, 0)
        self.levels: dict[int, Level] = {n: one for n, one in levels.items() if one.site == program.site}
        self.marks: dict[str, int] = {}  # of outputs, levels, and what others were told
        self.answers: list[Item] = []
        self._batches_there: set[Hashable] = set()
        self._out: dict[str, list[Posted]] = {}

    def _leaders(self) -> list[Running]:
        return [step for step in self.steps if step.leads]

    def _copy(self, number: int, step: Running) -> _Copy:
        here, probes = self.program.site, len(step.served)
        source = PacedSource(step.source, probes) if step.plan.source_site == here else None
        target = PacedTarget(step.target, probes) if step.plan.target_site == here else None
        return _Copy(number, step, source, target)

    def close(self, alias: str, mark: int, batches: Mapping[int, Sequence[Member]]) -> None:
        """The tuples of an input in intervals up to a mark, in order; later ones are still open."""
        for interval in sorted(batches):
            items = [Item(one.ts, one.end, one.position, (one,)) for one in batches[interval]]
            self._feed((alias,), interval, items)
        self._advance((alias,), mark)

    def receive(self, mail: Mail) -> None:
        """What another site has sent."""
        for posted in mail.posted:
            self._deliver(posted)
        for (kind, number, probe), mark in mail.marks.items():
            copy = self.copies[number]
            if kind == COPIED:
                assert copy.source is not None
                copy.source.copied = mark
            else:
                assert copy.target is not None
                (copy.target.asked if kind == ASKED else copy.target.sent)[probe] = mark

    def run(self) -> tuple[dict[str, Mail], list[Item]]:
        """All that is due: the mail to other sites, and answers with members in FROM order."""
        while self._pass():
            pass
        self._batches_there.clear()
        answers, self.answers = self.answers, []
        mails = {}
        for site in self.program.targets:
            posted, marks = self._out.pop(site, []), dict(self._new_marks(site))
            if posted or marks:
                mails[site] = Mail(posted, marks)
        return mails, answers

    @property
    def state(self) -> Any:
        """All that changes, but for what the plan gives."""
        return ([(copy.source, copy.target) for copy in self.copies], self.levels, self.marks)

    @state.setter
    def state(self, kept: Any) -> None:
        halves, self.levels, self.marks = kept
        for copy, (source, target) in zip(self.copies, halves, strict=True):
            copy.source, copy.target = source, target

    @property
    def held(self) -> int:
        """Tuples kept here."""
        halves = [half for copy in self.copies for half in (copy.source, copy.target) if half is not None]
        return sum(half.half.held + half.waiting for half in halves) + sum(
            level.held for level in self.levels.values()
        )

    @property
    def complete(self) -> int:
        """The last interval that is over here: all it needs has come, is answered and has found its own."""
        marks = [NEVER]
        for copy in self.copies:
            probes = range(len(copy.running.served))
            if copy.source is not None:
                marks += map(copy.source.sent, probes)
            if copy.target is not None:
                marks.append(copy.target.mark)
                if sends_to_target(copy.running.plan.method):
                    marks += [
                        mark for n in probes for mark in (copy.target.asked[n], copy.target.output_mark(n))
                    ]
        return min(marks)

    def heard_from(self, site: str) -> int:
        """How far what comes from a site has come."""
        marks = [mark for way, _, mark in self._flows(incoming=True) if way == site]
        return min(marks, default=NEVER)

    def _pass(self) -> bool:
        """Runs every half once; whether that has moved anything."""
        moved = False
        for copy in self.copies:
            for paced, is_source in ((copy.target, False), (copy.source, True)):
                if paced is not None:
                    moved |= self._perform(copy, paced.run(), is_source)
            if copy.source is not None and copy.target is not None:
                moved |= self._tell_each_other(copy.source, copy.target)
        for step in self.steps:
            mark = self._output_mark(step)
            if mark is not None and mark > self.marks.get(f"output {step.number}", BEGINNING):
                self.marks[f"output {step.number}"] = mark
                moved = True
                self._advance_output(step, mark)
        return moved

    def _perform(self, copy: _Copy, actions: Actions, is_source: bool) -> bool:
        moved = False
        for action in actions:
            if isinstance(action, Ship):
                self._post(copy, action, is_source)
                moved = True
            elif isinstance(action, Output):
                self._hand_on(self.steps[copy.running.served[action.probe]], action)
                moved |= bool(action.items)
        return moved

    def _post(self, copy: _Copy, action: Ship, is_source: bool) -> None:
        plan, size = copy.running.plan, action.bytes
        site = plan.target_site if is_source else plan.source_site
        flow = plan.flow(of_source=is_source)
        if action.batch and flow is not None:
            batch = (flow, site, action.message.interval)
            if batch in self._batches_there:
                size -= action.batch
            self._batches_there.add(batch)
        posted = Posted(copy.number, not is_source, action.message, size)
        if site == self.program.site:
            self._deliver(posted)
        else:
            self._out.setdefault(site, []).append(posted)

    def _deliver(self, posted: Posted) -> None:
        copy = self.copies[posted.copy]
        half = copy.source if posted.to_source else copy.target
        assert half is not None, f"copy {posted.copy} is elsewhere"
        half.hear(posted.message)

    def _tell_each_other(self, source: PacedSource, target: PacedTarget) -> bool:
        """Two halves at one site need no mail."""
        asked, sent = list(source.asked), [source.sent(n) for n in range(len(source.asked))]
        moved = (target.asked, target.sent, source.copied) != (asked, sent, target.updated)
        target.asked, target.sent, source.copied = asked, sent, target.updated
        return moved

    def _hand_on(self, step: Running, output: Output) -> None:
        """The output of a step becomes the source of the next, a part of a level, or answers."""
        if not output.items:
            return
        if step.feeds is None:
            self.answers += [step.in_level_order(item) for item in output.items]
        elif self.program.plan.ordering == "linear":
            after = self.steps[step.feeds]
            source = self._copy_of[after.number].source
            assert source is not None, "a step goes on where its source is"
            source.put(output.interval, after.probe, output.items)
        else:
            items = [step.in_level_order(item) for item in output.items]
            self.levels[step.level].add(output.interval, items)

    def _output_mark(self, step: Running) -> int | None:
        """How far the output of a step is complete, if it is at this site."""
        copy = self._copy_of[step.number]
        if step.plan.method.output_at_source:
            return None if copy.source is None else copy.source.sent(step.probe)
        return None if copy.target is None else copy.target.output_mark(step.probe)

    def _advance_output(self, step: Running, mark: int) -> None:
        if step.feeds is None:
            return
        if self.program.plan.ordering == "linear":
            after = self.steps[step.feeds]
            source = self._copy_of[after.number].source
            assert source is not None
            source.marks[after.probe] = mark
            return
        level, pair = self.levels[step.level], (2 * step.level, 2 * step.level + 1)
        closed = min(self.marks.get(f"output {number}", BEGINNING) for number in pair)
        for interval, items in level.close_up_to(closed):
            self._feed(level.order, interval, items)
        self._advance(level.order, closed)

    def _feed(self, side: tuple[str, ...], interval: int, items: Sequence[Item]) -> None:
        """A batch of a stream, or of a level, to the halves that start from it or keep it."""
        for half, probe in self._takers(side):
            if isinstance(half, PacedTarget):
                half.put(interval, items)
            else:
                half.put(interval, probe, items)

    def _advance(self, side: tuple[str, ...], mark: int) -> None:
        for half, probe in self._takers(side):
            if isinstance(half, PacedTarget):
                half.mark = mark
            else:
                half.marks[probe] = mark

    def _takers(self, side: tuple[str, ...]) -> Iterator[tuple[PacedSource | PacedTarget, int]]:
        for step in self.steps:
            copy = self._copy_of[step.number]
            if step.plan.target == side and step.leads and copy.target is not None:
                yield copy.target, 0
            elif step.plan.source == side and step.starts and copy.source is not None:
                yield copy.source, step.probe

    def _new_marks(self, site: str) -> Iterator[tuple[Flow, int]]:
        """The marks that another site does not know yet."""
        for way, flow, mark in self._flows(incoming=False):
            name = " ".join(map(str, flow))
            if way == site and mark > self.marks.get(name, BEGINNING):
                self.marks[name] = mark
                yield flow, mark

    def _flows(self, *, incoming: bool) -> Iterable[tuple[str, Flow, int]]:
        """What comes here from other sites, or goes to them: which site, what it is, and how far it is."""
        for copy in self.copies:
            plan, source, target = copy.running.plan, copy.source, copy.target
            if (source is None) == (target is None):
                continue
            probes = range(len(copy.running.served))
            if source is not None and not incoming and sends_to_target(plan.method):
                for probe in probes:
                    yield plan.target_site, (ASKED, copy.number, probe), source.asked[probe]
                    yield plan.target_site, (SENT, copy.number, probe), source.sent(probe)
            if target is not None and incoming and sends_to_target(plan.method):
                for probe in probes:
                    yield plan.source_site, (ASKED, copy.number, probe), target.asked[probe]
                    yield plan.source_site, (SENT, copy.number, probe), target.sent[probe]
            if target is not None and not incoming and sends_to_source(plan.method):
                yield plan.source_site, (COPIED, copy.number, 0), target.updated
            if source is not None and incoming and sends_to_source(plan.method):
                yield plan.target_site, (COPIED, copy.number, 0), source.copied
