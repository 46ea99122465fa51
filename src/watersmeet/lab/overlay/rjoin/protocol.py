"""RJoin: continuous multi-way joins by recursive query rewriting (Idreos, Liarou and Koubarakis, EDBT 2008).

A query waits at the node responsible for one of its `relation+attribute` pairs. Every tuple goes to the nodes
of each of its pairs and `relation+attribute+value` triples (Procedure 1). A tuple that meets a query rewrites
it into one with a join less (Procedure 2), which goes on to a node where its next tuple will come or already
is (Procedure 3), until nothing is awaited and the answer goes to who asked.

Guarantee: with the ALTT (section 4) and a Delta no shorter than a query's way to its first node, the answers
are exactly those of the oracle over the tuples published since the query was posed, whatever the delays
within the bound. A query meets a tuple once: whichever is second at their common key finds the other there.

Where we differ:
- The proof of Theorem 1 lets a rewritten query wait at the attribute level with the same Delta. It may come
  there long after tuples it needs have left the ALTT; so `pairs_for_rewritten` requires Delta = infinity.
- DISTINCT: refusing a projection twice at a node does not stop two rewritten queries from giving the same
  answer; the asking node removes what is left, by the answers' lifetimes.
- Tuple windows: only a node that sees a whole relation can count it, so each tuple also goes to the node of
  its relation's name, where combinations are checked once all tuples of their time have arrived.

Example (R.A2 = S.B2): q waits at R+A2; R(1, 2, 3) rewrites it, q' waits at S+B2+2; S(b, 2, c) completes it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from watersmeet.lab.overlay.actions import Action, Direct, Later, MultiSend, Send, everything
from watersmeet.lab.overlay.chord.ring import DEFAULT_BITS
from watersmeet.lab.overlay.counters import Counters
from watersmeet.lab.overlay.rjoin.answers import Answers
from watersmeet.lab.overlay.rjoin.indexing import all_pairs, input_candidates, rewritten_candidates
from watersmeet.lab.overlay.rjoin.messages import (
    Answer,
    AskRates,
    Count,
    Eval,
    Index,
    NewTuple,
    Publish,
    ReportRates,
    Submit,
    Verify,
)
from watersmeet.lab.overlay.rjoin.node import Census, NodeState, Placement, is_expired
from watersmeet.lab.overlay.rjoin.placement import Placer
from watersmeet.lab.overlay.rjoin.query import KeyBook, Published, Rewriting, is_new, rewrite, start
from watersmeet.lab.overlay.rjoin.settings import Settings


class RJoin:
    """All nodes of an RJoin network: a message in, actions out."""

    def __init__(
        self,
        settings: Settings,
        counters: Counters,
        arc_start: Callable[[int], int],
        bits: int = DEFAULT_BITS,
    ) -> None:
        self.settings = settings
        self.counters = counters
        self.keys = KeyBook()
        self.answers = Answers(settings.keep_answers)
        self._placer = Placer(settings, arc_start, bits)
        self._states: dict[int, NodeState] = {}
        self._handlers: dict[type, Callable[..., Iterable[Action]]] = {
            NewTuple: self._on_tuple,
            Eval: self._on_eval,
            Index: self._on_eval,
            AskRates: self._on_ask,
            ReportRates: self._on_report,
            Answer: self._on_answer,
            Submit: self._on_submit,
            Publish: self._on_publish,
            Count: self._on_count,
            Verify: self._on_verify,
        }

    def receive(self, node: int, message: Any, now_us: int, rng: random.Random) -> Iterable[Action]:
        return self._handlers[type(message)](node, message, now_us, rng)

    def state(self, node: int) -> NodeState:
        found = self._states.get(node)
        if found is None:
            settings = self.settings
            found = self._states[node] = NodeState(settings.ric_window_us, settings.ric_max_age_us)
        return found

    @property
    def active(self) -> dict[int, NodeState]:
        """The nodes that have kept or known anything."""
        return self._states

    def _on_publish(self, node: int, message: Publish, now_us: int, rng: random.Random) -> Iterable[Action]:
        """Procedure 1: a tuple goes out twice for each attribute; one without value can equal nothing."""
        tuple_ = message.tuple_
        pairs: list[tuple[Any, str]] = []
        for column, value in zip(tuple_.stream.columns, tuple_.keys, strict=True):
            if value is not None:
                table = self.keys.of(tuple_.stream.name, column.name)
                key = self._placer.one_replica(table.attribute_key, rng)
                pairs.append((NewTuple(tuple_, key, False), key))
                pairs.append((NewTuple(tuple_, table[value], True), table[value]))
        if self.settings.tuple_windows:
            pairs.append((Count(tuple_), tuple_.stream.name))
        return (MultiSend(pairs),)

    def _on_tuple(self, node: int, message: NewTuple, now_us: int, rng: random.Random) -> Iterable[Action]:
        """Procedure 2: a tuple rewrites the queries that wait for it."""
        state, key, tuple_ = self.state(node), message.key, message.tuple_
        self.counters.processing[node] += 1
        state.arrivals.note(key, now_us)
        self._placer.note(key, now_us)
        rewritten: list[Rewriting] = []
        waiting = state.waiting.get(key)
        if waiting:
            any_expired = False
            for query in waiting:
                new = rewrite(query, tuple_)
                if new is None:
                    any_expired = any_expired or is_expired(query, now_us, self.settings.transit_us)
                elif not query.query.distinct or query.parent is None or is_new(query, new):
                    rewritten.append(new)
            if any_expired:
                self.counters.keep(node, -state.drop_expired(key, now_us, self.settings.transit_us))
        if message.at_value_level:
            state.tuples.setdefault(key, []).append(tuple_)
            self.counters.keep(node)
        elif self.settings.altt_us is not None:
            state.altt.setdefault(key, deque()).append((now_us, tuple_))
            self.counters.keep(node)
            self.counters.keep(node, -state.drop_old(key, now_us, self.settings.altt_us))
        return self._onward(node, state, rewritten, now_us, rng) if rewritten else ()

    def _on_eval(self, node: int, message: Eval, now_us: int, rng: random.Random) -> Iterable[Action]:
        """Procedure 3: queries meet the tuples that are there, and wait for others."""
        state, key = self.state(node), message.key
        if message.rates:
            state.candidates.learn(message.rates)
        is_input = type(message) is Index
        transit_us = self.settings.transit_us
        kept = [q for q in message.queries if q.query.endless or not is_expired(q, now_us, transit_us)]
        if kept:
            state.waiting.setdefault(key, []).extend(kept)
        if not is_input:
            self.counters.processing[node] += len(message.queries)
            self.counters.keep(node, len(kept))
        tuples = self._tuples_at(node, state, key, now_us)
        rewritten: list[Rewriting] = []
        for query in message.queries if tuples else ():
            for tuple_ in tuples:
                new = rewrite(query, tuple_)
                if new is not None and (not query.query.distinct or is_input or is_new(query, new)):
                    rewritten.append(new)
        return self._onward(node, state, rewritten, now_us, rng) if rewritten else ()

    def _tuples_at(self, node: int, state: NodeState, key: str, now_us: int) -> list[Published]:
        """The tuples stored under a key: of a triple those kept for good, of a pair those in the ALTT."""
        if key in state.altt and self.settings.altt_us is not None:
            self.counters.keep(node, -state.drop_old(key, now_us, self.settings.altt_us))
            return [tuple_ for _, tuple_ in state.altt.get(key, ())]
        return state.tuples.get(key, [])

    def _onward(
        self, node: int, state: NodeState, rewritten: list[Rewriting], now_us: int, rng: random.Random
    ) -> list[Action]:
        """Complete queries become answers, the others look for their next node."""
        actions: list[Action] = []
        placements: list[Placement] = []
        for query in rewritten:
            if query.awaited:
                assert query.parent is not None
                assert query.parent.step is not None
                step = query.parent.step
                placements.append(
                    (query, rewritten_candidates(query, step, self.settings.pairs_for_rewritten))
                )
            else:
                actions += self._answer(query)
        if placements:
            actions += self._placer.place(node, state, placements, now_us, rng)
        return actions

    def _on_submit(self, node: int, message: Submit, now_us: int, rng: random.Random) -> Iterable[Action]:
        """A query looks for the pair under which to wait."""
        query = start(message.query)
        if self.settings.strategy in ("first", "random"):
            candidates = all_pairs(query)
        else:
            candidates = input_candidates(query, rng)
        return self._placer.place(node, self.state(node), [(query, candidates)], now_us, rng)

    def _on_ask(self, node: int, message: AskRates, now_us: int, rng: random.Random) -> Iterable[Action]:
        return self._placer.on_ask(node, self.state(node), message, now_us)

    def _on_report(
        self, node: int, message: ReportRates, now_us: int, rng: random.Random
    ) -> Iterable[Action]:
        return self._placer.on_report(node, self.state(node), message, now_us, rng)

    def _answer(self, query: Rewriting) -> list[Action]:
        """A complete query as an answer, by way of the relations that its tuple windows count."""
        model = query.query
        if not self.settings.keep_answers and not model.counted and not model.query.residual:
            return [Direct(Answer(model, (), query.t, query.end), model.owner)]  # nobody will read its row
        members = query.members()
        row = model.answer(members, query.t)
        if row is None:
            return []
        if model.counted:
            first = model.streams[model.counted[0]]
            return [
                Send(
                    Verify(
                        query=model, members=members, t=query.t, end=query.end, row=row, left=model.counted
                    ),
                    first,
                )
            ]
        return [Direct(Answer(model, row, query.t, query.end), model.owner)]

    def _on_count(self, node: int, message: Count, now_us: int, rng: random.Random) -> Iterable[Action]:
        """The node of a relation's name takes note of a tuple's position."""
        self.state(node).census.setdefault(message.tuple_.stream.name, Census()).add(message.tuple_)
        self.counters.keep(node)
        return ()

    def _on_verify(self, node: int, message: Verify, now_us: int, rng: random.Random) -> Iterable[Action]:
        """Once all tuples of its time have come, a combination is inside a tuple window or is dropped."""
        settled_us = message.t + self.settings.transit_us + 1
        if now_us < settled_us:
            return (Later(message, settled_us - now_us),)
        query, (input_, *left) = message.query, message.left
        census = self.state(node).census.get(query.streams[input_], Census())
        if not census.is_inside(message.members[input_], query.windows[input_], query.since_us, message.t):
            return ()
        if left:
            onward = Verify(
                query=query,
                members=message.members,
                t=message.t,
                end=message.end,
                row=message.row,
                left=tuple(left),
            )
            return (Send(onward, query.streams[left[0]]),)
        return (Direct(Answer(query, message.row, message.t, message.end), query.owner),)

    def _on_answer(self, node: int, message: Answer, now_us: int, rng: random.Random) -> Iterable[Action]:
        self.answers.add(message)
        return ()

    def hand_over(self, node: int, to: int, moves: Callable[[str], bool]) -> int:
        """Keys move to another node with all kept under them; from one that leaves its requests too."""
        if node not in self._states:
            return 0
        giver, taker = self._states[node], self.state(to)
        before = giver.items
        giver.hand_over(taker, moves)
        if moves is everything:
            taker.pending.update(giver.pending)
            del self._states[node]
        moved = before - giver.items
        self.counters.storage[node] -= moved
        self.counters.storage[to] += moved
        return moved

    def forget(self, node: int) -> int:
        state = self._states.pop(node, None)
        self.counters.storage[node] = 0
        return state.items if state else 0

    def sweep(self, now_us: int) -> None:
        """Drops everywhere what has expired, as every node would when it next looks."""
        transit_us, altt_us = self.settings.transit_us, self.settings.altt_us
        for node, state in self._states.items():
            dropped = sum(state.drop_expired(key, now_us, transit_us) for key in list(state.waiting))
            if altt_us is not None:
                dropped += sum(state.drop_old(key, now_us, altt_us) for key in list(state.altt))
            self.counters.keep(node, -dropped)

    def forget_tuples_before(self, ts: int) -> None:
        """Drops stored tuples that no query can use, where it is known that none is as old."""
        for node, state in self._states.items():
            for key, kept in list(state.tuples.items()):
                young = [tuple_ for tuple_ in kept if tuple_.ts >= ts]
                self.counters.keep(node, len(young) - len(kept))
                state.tuples[key] = young

    def load_by_key(self, now_us: int) -> dict[str, int]:
        """The work under each key, over all nodes: rewritten queries that wait, and tuples received."""
        load: dict[str, int] = {}
        for state in self._states.values():
            load.update(state.load_by_key(now_us))
        return load
