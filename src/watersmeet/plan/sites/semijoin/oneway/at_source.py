"""The semijoins with output at the source, SM-S1 and SM-S2 (Tran and Lee 2010, Algorithms 3 and 4).

SM-S1 sends the batch's join values; the tuples of W2 that match come back unless they came before, and are
kept as W'2 until a count of expired ones says how many of the first to go (Algorithm 8). SM-S2 keeps M2, all
join values of W2 with the tuples of those that a batch has asked for; new tuples of such values come by
themselves (Algorithm 9). Where vectors travel as changes (vectors.py), M2 forgets tuples by their own ends,
once the batches that could meet them have probed.

Guarantee: no tuple of W2 is shipped twice (Algorithm 7).

Where we differ: a batch of SM-S2 that meets a value another batch has asked for, and not got yet, waits for
that answer, and joins with M2 rather than with the answer alone; its output is handed on in one piece. SM-S1
answers a batch also when there is nothing new, as N1 waits for it (the paper: it always makes two
shipments). Under ROWS windows tuples travel with their end where it is known, and ends follow later.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.plan.sites.semijoin.oneway.halves import (
    AskingSource,
    Join,
    Receiver,
    Settled,
    Source,
    WindowTarget,
    distinct_keys,
    ended_of,
    joined,
    probe_and_join,
    reply,
    settled_by,
    ship,
)
from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item, Key
from watersmeet.plan.sites.semijoin.oneway.messages import (
    END_BYTES,
    NUMBER_BYTES,
    Actions,
    Expired,
    Message,
    Output,
    Ship,
    Tuples,
    Values,
    Vectors,
    Work,
)
from watersmeet.plan.sites.semijoin.oneway.vectors import MixedWindow, ValueArray
from watersmeet.plan.sites.semijoin.oneway.window import Held, HeldWindow

Batch = tuple[int, int]  # of which interval, and of which probe
Spell = tuple[Key, int]  # a value while W2 has it: another one when it comes again


def _reply(join: Join, message: Values, items: Sequence[Item]) -> Ship:
    """dW'2, or a message that it is empty."""
    answer = Tuples(message.interval, items, probe=message.probe)
    return reply(join, answer, join.shipped_bytes(items), "ship dW'2")


class OneStepSource(AskingSource):
    """SM-S1 at N1: keeps W'2, the tuples of W2 that matched."""

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self.window = HeldWindow(join.target_key, join.interval_us, counted=not join.marks)

    def receive(self, message: Tuples | Expired) -> Actions:
        if isinstance(message, Expired):
            self.window.learn(message.ended)
            self.window.remove_first(message.count)
            return []
        self.window.insert(message.items)
        interval, probe = message.interval, message.probe
        items = self._asked.pop((interval, probe))
        return [
            Work(interval, "update W'2", len(message.items) * self.join.costs.insert_s),
            *probe_and_join(self.join, probe, interval, "probe W'2", items, self.window),
        ]

    @property
    def held(self) -> int:
        return super().held + len(self.window)


class OneStepSourceTarget(WindowTarget):
    """SM-S1 at N2."""

    lockstep = True

    def update(self, interval: int, items: Sequence[Item], ended: Sequence[Ended]) -> Actions:
        self.window.insert(items)
        known = ended_of(self.window.learn(ended))
        count = sum(held.sent for held in self.leave(interval))
        size = self.join.costs.count_bytes + len(known) * (NUMBER_BYTES + END_BYTES)
        message = Expired(interval, count, known)
        something = [count] if count or known else []
        actions: Actions = [Work(interval, "update W2", len(items) * self.join.costs.insert_s)]
        if something:
            actions += ship(self.join, message, size, "ship expired count", if_any=something)
        return actions

    def answer(self, message: Values) -> Actions:
        work = self.probe_values(message)
        found = [held.as_known() for held in self.window.unsent(message.values)]
        self.done(message.interval, message.probe)
        return [work, _reply(self.join, message, found)]


class TwoStepSource(Source, Receiver):
    """SM-S2 at N1: keeps M2, the join values of W2 with the tuples asked for."""

    gated = True

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self.mixed = MixedWindow(join.target_key, join.interval_us, counted=not join.marks)
        self._requests = 0
        self._request_of: dict[Batch, int] = {}  # batches may come out of order, answers do not
        self._asking: dict[Spell, int] = {}  # values under way, and the request that asked
        self._temp: dict[Batch, tuple[int, Output, list[Item]]] = {}  # batches, and the request each awaits
        self._probed = [Settled(join.first_interval) for _ in join.probes]

    def process(self, interval: int, items: Sequence[Item], probe: int) -> Actions:
        join, key_of = self.join, self.join.probes[probe].source_key
        partial = [item for item in items if self.mixed.is_partial(key_of(item))]
        spell = self.mixed.spell
        wanted = [key for key in distinct_keys(partial, key_of) if spell(key) not in self._asking]
        if wanted:
            self._requests += 1
            self._request_of[interval, probe] = self._requests
            self._asking.update(dict.fromkeys(map(spell, wanted), self._requests))
        ready = items if not partial else [i for i in items if not self.mixed.is_partial(key_of(i))]
        output = joined(join, probe, interval, ready, self.mixed.tuples)
        size = len(wanted) * join.target_key_bytes
        actions: Actions = [
            Work(interval, "update W1", len(items) * join.costs.insert_s),
            Work(interval, "probe M2", len(items) * join.costs.hash_s),
            *ship(join, Values(interval, wanted, probe), size, "ship dV'2", if_any=wanted),
        ]
        if not partial:
            self._note_probed(interval, probe)
            return [*actions, output]
        awaited = max(self._asking[spell(key_of(item))] for item in partial)
        self._temp[interval, probe] = (awaited, output, partial)
        return actions

    def receive(self, message: Vectors | Tuples) -> Actions:
        if isinstance(message, Vectors):
            return self._follow(message)
        request = self._request_of.pop((message.interval, message.probe))
        asked = [spell for spell, number in self._asking.items() if number == request]
        self.mixed.fill(message.items, None if self.join.vectors == "counts" else asked)
        for spell in asked:
            del self._asking[spell]
        due = sorted(number for number, batch in self._temp.items() if batch[0] == request)
        return [action for number in due for action in self._finish(number)]

    def _follow(self, message: Vectors) -> Actions:
        actions: Actions = []
        if message.update:
            self.mixed.apply(message.update, message.ended)
            changed = len(message.update.values)
            actions.append(Work(message.interval, "update M2", changed * self.join.costs.update_s))
        else:
            self.mixed.tuples.learn(message.ended)
        actions += self.received(message.interval)
        if self.join.vectors == "changes" and not self.join.marks:
            self.release(settled_by(self.join, self._probed, message.interval))
        return actions

    def waits_its_turn(self, message: Message) -> bool:
        return isinstance(message, Vectors)

    @property
    def held(self) -> int:
        return len(self.mixed.tuples) + sum(len(partial) for _, _, partial in self._temp.values())

    def pending(self, probe: int) -> int | None:
        return min((interval for interval, number in self._temp if number == probe), default=None)

    def release(self, interval: int) -> None:
        self.mixed.tuples.settle(interval)

    def _note_probed(self, interval: int, probe: int) -> None:
        if not self.join.marks:
            self._probed[probe].add(interval)

    def _finish(self, batch: Batch) -> Actions:
        interval, probe = batch
        _, before, partial = self._temp.pop(batch)
        self._note_probed(interval, probe)
        after = joined(self.join, probe, interval, partial, self.mixed.tuples)
        items = [*before.items, *after.items]
        return [
            Work(interval, "probe M2 again", len(partial) * self.join.costs.hash_s),
            Output(interval, items, before.count + after.count, probe),
        ]


class TwoStepSourceTarget(WindowTarget):
    """SM-S2 at N2: keeps V2 beside W2."""

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self.values = ValueArray(join.target_key, join.vectors)

    def update(self, interval: int, items: Sequence[Item], ended: Sequence[Ended]) -> Actions:
        join = self.join
        probed = len(items) * len(self.values)
        inserted = self.window.insert(items)
        known = ended_of(self.window.learn(ended))
        update = self.values.update(inserted, self.leave(interval))
        size = float(len(known) * (NUMBER_BYTES + END_BYTES))
        fresh = 0
        if update:
            fresh = len(update.values)
            size += update.bytes(join.target_key_bytes, join.costs.count_bytes)
            size += join.shipped_bytes(update.full)
        something = [update] if update or known else []
        return [
            Work(interval, "probe V2", probed * join.costs.probe_s),
            Work(interval, "update W2", len(items) * join.costs.insert_s),
            Work(interval, "update V2", fresh * join.costs.insert_s),
            *ship(join, Vectors(interval, update, known), size, "ship vC vJ sF", if_any=something),
        ]

    def answer(self, message: Values) -> Actions:
        self.done(message.interval, message.probe)
        if not message.values:
            return []
        work = self.probe_values(message)
        held = self._asked_for(message) if self.join.marks else self.window.unsent(message.values)
        if not self.join.marks:
            self.values.mark_sent(message.values)
        return [work, _reply(self.join, message, [one.as_known() for one in held])]

    def _asked_for(self, message: Values) -> list[Held]:
        """Tuples of the values as W2 had them in the message's interval, and those that came while it did."""
        found: list[Held] = []
        for key in message.values:
            held = self.window.alive_from(key, message.interval)
            spell = next(one.spell for one in held if self.window.interval_of(one.t) <= message.interval)
            found += [one for one in held if one.spell == spell and not one.sent]
            self.values.mark_spell_sent(key, spell)
        for one in found:
            one.sent = True
        return sorted(found, key=lambda one: one.item.number)
