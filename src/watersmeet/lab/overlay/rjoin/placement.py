"""Placing queries at nodes: choosing keys, asking for rates, packing (RJoin sections 6 and 7).

Under `ric` a node asks the candidates whose rate it does not know. The request goes from candidate to
candidate, clockwise, taking each one's rate and address along, and then back in one hop; so k candidates cost
k O(log N) + 1 messages and the query one more, as its address is known by then. What is learned stays in the
candidate table, and travels with the query for the candidates it did not choose. A rate that has grown too
old is asked for again in one hop. Queries for one key, and under `ric` for one node, share a message.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from watersmeet.lab.overlay.actions import Action, Direct, DirectGroup, MultiSend, Send
from watersmeet.lab.overlay.chord.ring import identifier
from watersmeet.lab.overlay.rjoin.indexing import ArrivalRates, Candidate, least, most
from watersmeet.lab.overlay.rjoin.messages import AskRates, Eval, Index, Rate, Rates, ReportRates
from watersmeet.lab.overlay.rjoin.node import NodeState, Pending, Placement
from watersmeet.lab.overlay.rjoin.query import Rewriting
from watersmeet.lab.overlay.rjoin.settings import Settings


class Placer:
    """Decides for any node where its queries go."""

    def __init__(self, settings: Settings, arc_start: Callable[[int], int], bits: int) -> None:
        self._settings = settings
        self._arc_start = arc_start  # the first identifier a node is responsible for
        self._bits = bits
        self._identifiers: dict[str, int] = {}
        self._tickets = 0
        self._everywhere = ArrivalRates(settings.ric_window_us)  # what only the worst case knows
        self._replicated: dict[str, list[str]] = {}

    def note(self, key: str, now_us: int) -> None:
        """Lets the worst case know of a tuple that arrived somewhere."""
        if self._settings.strategy == "worst":
            self._everywhere.note(key, now_us)

    def replicas(self, key: str) -> list[str]:
        """The keys under which queries of an attribute-level key are kept, each of them a full copy."""
        found = self._replicated.get(key)
        if found is None:
            found = [key, *(f"{key}#{n}" for n in range(1, self._settings.replicas))]
            self._replicated[key] = found
        return found

    def one_replica(self, key: str, rng: random.Random) -> str:
        """Where one tuple goes: to any one of the copies."""
        return key if self._settings.replicas == 1 else rng.choice(self.replicas(key))

    def place(
        self, node: int, state: NodeState, placements: list[Placement], now_us: int, rng: random.Random
    ) -> list[Action]:
        """Sends queries to a candidate each, or asks for the rates that are missing first."""
        if self._settings.strategy == "ric":
            return self._place_by_rate(node, state, placements, now_us, rng)
        chosen = [(query, self._choose(candidates, now_us, rng)) for query, candidates in placements]
        return [MultiSend(self._packed(chosen, {}))]

    def _choose(self, candidates: list[Candidate], now_us: int, rng: random.Random) -> Candidate:
        strategy = self._settings.strategy
        if len(candidates) == 1 or strategy == "first":
            return candidates[0]
        if strategy == "random":
            return rng.choice(candidates)
        rates = [self._everywhere.of(candidate.key, now_us) for candidate in candidates]
        return candidates[most(self._per_attribute(candidates, rates), rng)]

    def _per_attribute(self, candidates: list[Candidate], rates: list[int]) -> list[int]:
        """Rates as they would be without replicas, each of which sees its share of a relation's tuples."""
        copies = self._settings.replicas
        if copies == 1:
            return rates
        return [
            rate * copies if candidate.is_pair else rate
            for candidate, rate in zip(candidates, rates, strict=True)
        ]

    def _packed(
        self, chosen: list[tuple[Rewriting, Candidate]], carried: dict[str, Rates]
    ) -> list[tuple[Eval, str]]:
        """One message for each key, holding all queries that are to wait there."""
        messages: dict[str, Eval] = {}
        for query, candidate in chosen:
            query.step = query.query.step(query.awaited, candidate.input)
            keys = self.replicas(candidate.key) if candidate.is_pair else (candidate.key,)
            for number, key in enumerate(keys):
                message = messages.get(key)
                if message is None:
                    form = Eval if query.parent is not None else Index
                    message = messages[key] = form([], key, carried.get(candidate.key, {}))
                message.queries.append(query if number == 0 else query.copy())
        return [(message, key) for key, message in messages.items()]

    def _place_by_rate(
        self,
        node: int,
        state: NodeState,
        placements: list[Placement],
        now_us: int,
        rng: random.Random,
        just_reported: bool = False,
    ) -> list[Action]:
        chosen: list[tuple[Rewriting, Candidate]] = []
        carried: dict[str, Rates] = {}
        addresses: dict[str, int] = {}
        lacking: list[Placement] = []
        unknown: dict[str, None] = {}
        stale: dict[str, int] = {}
        table = state.candidates
        for placement in placements:
            query, candidates = placement
            rates: list[Rate] = []
            for candidate in candidates:
                rate = table.get(candidate.key)
                if rate is None:
                    unknown[candidate.key] = None
                elif not just_reported and table.is_stale(rate, now_us):
                    stale[candidate.key] = rate.address
                else:
                    rates.append(rate)
            if len(rates) < len(candidates):
                lacking.append(placement)
                continue
            best = 0
            if len(candidates) > 1:
                best = least(self._per_attribute(candidates, [rate.tuples for rate in rates]), rng)
                others = carried.setdefault(candidates[best].key, {})
                for candidate, rate in zip(candidates, rates, strict=True):
                    others[candidate.key] = rate
            addresses[candidates[best].key] = rates[best].address
            chosen.append((query, candidates[best]))
        actions = self._to_addresses(self._packed(chosen, carried), addresses)
        if lacking:
            actions += self._ask(node, state, lacking, list(unknown), stale)
        return actions

    def _to_addresses(self, messages: list[tuple[Eval, str]], addresses: dict[str, int]) -> list[Action]:
        """Each message in one hop where its node is known; replicas beyond the first are looked up."""
        together: dict[int, list[tuple[Eval, str]]] = {}
        looked_up: list[tuple[Eval, str]] = []
        for message, key in messages:
            if key in addresses:
                together.setdefault(addresses[key], []).append((message, key))
            else:
                looked_up.append((message, key))
        actions: list[Action] = [DirectGroup(pairs, address) for address, pairs in together.items()]
        if looked_up:
            actions.append(MultiSend(looked_up))
        return actions

    def _ask(
        self,
        node: int,
        state: NodeState,
        lacking: list[Placement],
        unknown: list[str],
        stale: dict[str, int],
    ) -> list[Action]:
        """One request round all unknown candidates, and one in a single hop to each whose rate is too old."""
        self._tickets += 1
        ticket = self._tickets
        actions: list[Action] = []
        if unknown:
            origin, span = self._arc_start(node), 1 << self._bits
            unknown.sort(key=lambda key: (self._identifier(key) - origin) % span, reverse=True)
            first = unknown.pop()
            actions.append(Send(AskRates(first, unknown, node, ticket, {}), first))
        for key, address in stale.items():
            actions.append(Direct(AskRates(key, [], node, ticket, {}), address, key))
        state.pending[ticket] = Pending(lacking, len(actions))
        return actions

    def on_ask(self, node: int, state: NodeState, message: AskRates, now_us: int) -> Iterable[Action]:
        """A candidate adds its rate and passes the request on, or back to the node that asked."""
        rates, left = message.rates, message.keys_after
        rates[message.key] = Rate(state.arrivals.of(message.key, now_us), now_us, node)
        if left:
            key = left.pop()
            return (Send(AskRates(key, left, message.asker, message.ticket, rates), key),)
        return (Direct(ReportRates(rates, message.ticket), message.asker),)

    def on_report(
        self, node: int, state: NodeState, message: ReportRates, now_us: int, rng: random.Random
    ) -> Iterable[Action]:
        """With the last reply the pending queries are placed."""
        state.candidates.learn(message.rates)
        pending = state.pending.get(message.ticket)
        if pending is None:
            return ()
        pending.replies_due -= 1
        if pending.replies_due:
            return ()
        del state.pending[message.ticket]
        return self._place_by_rate(node, state, pending.placements, now_us, rng, just_reported=True)

    def _identifier(self, key: str) -> int:
        found = self._identifiers.get(key)
        if found is None:
            found = self._identifiers[key] = identifier(key, self._bits)
        return found
