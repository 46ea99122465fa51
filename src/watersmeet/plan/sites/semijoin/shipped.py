"""What a one-way join ships: formulas of the seven methods that count every byte the protocols send.

The paper's formulas (cost.py) estimate execution time, and say what they leave out: nothing of the vectors
that keep V2@N1 and M2 up to date, but new values that have no match; every value of S2 that S1 can have at
all as matching, however few tuples the windows hold; S2's tuples anew for every batch that asks. Here the
protocols' messages (plan/sites/semijoin/oneway) are counted as they are sent, content only, without framing:

    SP-S, SP-D   whole batches; under ROWS windows SP-S the ends of earlier tuples besides K1           the
    values of a batch, each once dW'2         a tuple of S2 once, if S1 has its value while it lives (SM-S1),
    or had since the value was last
                 gone from the window (SM-S2)
    B'1, K'1     what has a partner in W2, whose tuples are kept an interval longer than they live
    vectors      a value when it comes to W2 anew, and its number when it goes again
    flips        the bits of SM-B's filter that those values flip

Values differ: each formula is a sum over values (values.py), so skew counts.

Steps share. One copy at a site serves all steps that probe it: what keeps it up to date is shipped once, and
a tuple of S2 that one step has asked for is not shipped for another. A whole batch crosses a link once,
whether it goes as SP-D's B1 or as SP-S's B2. `Term.shared` says how a term is shared; plan.py adds terms up.

Example: 100 tuples/s of 1,000 bytes each way, 60 s windows, 100,000 and 4,000 values of 8 bytes: SM-D2 from
the first to the second ships 800 bytes/s of values, gets 25 back, and ships 3,110 bytes/s of tuples.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from watersmeet.plan.sites.semijoin.cost import JoinCost, JoinSide, Method, OneWayJoin, Shared, Term
from watersmeet.plan.sites.semijoin.filter import (
    HASHES,
    false_positive_rate,
    fill,
    filter_bits,
    flip_bytes,
)
from watersmeet.plan.sites.semijoin.values import FlowValues
from watersmeet.plan.statistics.statistics import Link

NUMBER_BYTES = 4.0  # the number of a tuple, or of a value
END_BYTES = 8.0  # when a tuple under a ROWS window ends


def gone_bytes(key_bytes: float) -> float:
    """What it takes to say that a value is gone: its number, or itself where that is shorter."""
    return min(NUMBER_BYTES, key_bytes)


def _values(side: JoinSide) -> FlowValues:
    if side.values is None:
        raise ValueError("a join is priced by what it ships only with the values of both sides")
    return side.values


def _term(
    join: OneWayJoin,
    name: str,
    bytes_per_s: float,
    *,
    to_source: bool = False,
    shared: Shared = None,
    whole: float = 0.0,
) -> Term:
    speed = (join.back if to_source else join.link).bytes_per_s
    return Term(f"ship {name}", "ship", bytes_per_s / speed, bytes_per_s, to_source, shared, whole)


def _sum(values: FlowValues, each: object) -> float:
    return float(np.dot(values.counts, np.asarray(each)))


def _late_end_bytes(side: JoinSide) -> float:
    """What it takes to say that a tuple sent before has ended."""
    return NUMBER_BYTES + END_BYTES if side.open_ends else 0.0


def _sent_tuple_bytes(side: JoinSide) -> float:
    """A tuple of S2 on its way to the source, with its end, known now or later."""
    return side.tuple_bytes + (END_BYTES if side.open_ends else 0.0) + _late_end_bytes(side)


def _simple_at_source(join: OneWayJoin) -> list[Term]:
    side = join.target
    terms = [_term(join, "B2", side.rate_per_s * side.tuple_bytes, to_source=True, shared="batch")]
    if side.open_ends:
        ends = side.rate_per_s * _late_end_bytes(side)
        terms.append(_term(join, "ends of W2", ends, to_source=True, shared="copy"))
    return terms


def _simple_at_destination(join: OneWayJoin) -> list[Term]:
    side = join.source
    return [_term(join, "B1", side.rate_per_s * side.tuple_bytes, shared="batch")]


def _kept_s(join: OneWayJoin, *shipments: Link) -> float:
    """How much longer than it lives a tuple is kept: until the batch of its last interval is settled.

    It is at the end of an interval, when shipments one after another have told N2 so.
    """
    delay = math.fsum(link.latency_s for link in shipments)
    return join.interval_s * max(1, math.ceil(delay / join.interval_s - 1e-9))


def _asked_values(join: OneWayJoin) -> float:
    """K1: values a second, each once a batch."""
    source = _values(join.source)
    return _sum(source, source.comes_within(join.interval_s)) / join.interval_s


def _one_step_at_source(join: OneWayJoin) -> list[Term]:
    source, target, side = _values(join.source), _values(join.target), join.target
    kept_s = _kept_s(join, join.link)
    sent = _sum(target, target.items_per_s * target.asked_of(source, kept_s))
    whole = side.rate_per_s * _sent_tuple_bytes(side)
    count = -np.expm1(-sent * join.interval_s) / join.interval_s * join.costs.count_bytes
    return [
        _term(join, "K1", _asked_values(join) * join.source.key_bytes),
        _term(join, "dW'2", sent * _sent_tuple_bytes(side), to_source=True, shared="tuples", whole=whole),
        _term(join, "expired count", float(count), to_source=True, shared="copy"),
    ]


def _two_step_at_source(join: OneWayJoin) -> list[Term]:
    source, target, side = _values(join.source), _values(join.target), join.target
    kept_s = _kept_s(join, join.back, join.link)
    missed = target.unasked_spells(source, kept_s)
    asked = _sum(target, target.spells_per_s(join.interval_s, kept_s) * (1 - missed))
    sent = _sum(target, target.items_per_s * (1 - missed))
    whole = side.rate_per_s * _sent_tuple_bytes(side)
    return [
        _term(join, "dV'2", asked * side.key_bytes),
        _term(join, "vectors", _vector_bytes(join, kept_s), to_source=True, shared="copy"),
        _term(join, "dW'2", sent * _sent_tuple_bytes(side), to_source=True, shared="tuples", whole=whole),
    ]


def _vector_bytes(join: OneWayJoin, kept_s: float) -> float:
    """Values that come to W2, and that go from it, in bytes a second."""
    target, key_bytes = _values(join.target), join.target.key_bytes
    each = key_bytes + (gone_bytes(key_bytes) if target.expires else 0.0)
    return _sum(target, target.spells_per_s(join.interval_s, kept_s)) * each


def _matching(join: OneWayJoin, kept_s: float) -> float:
    """Tuples of S1 a second whose value W2 has."""
    source, target = _values(join.source), _values(join.target)
    return min(1.0, join.agreement) * _sum(source, source.items_per_s * target.held(kept_s))


def _one_step_at_destination(join: OneWayJoin) -> list[Term]:
    kept_s = _kept_s(join, join.back, join.link)
    return [
        _term(join, "B'1", _matching(join, kept_s) * join.source.tuple_bytes),
        _term(join, "vectors", _vector_bytes(join, kept_s), to_source=True, shared="copy"),
    ]


def _two_step_at_destination(join: OneWayJoin) -> list[Term]:
    source, target, key_bytes = _values(join.source), _values(join.target), join.source.key_bytes
    kept_s = _kept_s(join, join.link, join.back, join.link)
    found = source.comes_within(join.interval_s) * target.held(kept_s)
    answered = _sum(source, found) / join.interval_s
    return [
        _term(join, "K1", _asked_values(join) * key_bytes),
        _term(join, "K'1", answered * key_bytes, to_source=True),
        _term(join, "B'1", _matching(join, kept_s) * join.source.tuple_bytes),
    ]


def _filter_at_destination(join: OneWayJoin) -> list[Term]:
    target, kept_s = _values(join.target), _kept_s(join, join.back, join.link)
    bits, interval_s = filter_bits(join.target_window_values), join.interval_s
    held = [_sum(target, held) for held in target.held_over_time(kept_s)]
    comes = _sum(target, target.spells_per_s(interval_s, kept_s))
    empty = 1 - float(np.mean([fill(values, bits) for values in held]))
    flips = comes * interval_s * HASHES * empty
    if target.tumbles:  # what came one by one goes all at once
        at_once = fill(_sum(target, target.held_at_most()), bits) * bits
        flipped = flip_bytes(flips, bits) / interval_s + flip_bytes(at_once, bits) / (2 * target.life_s)
    else:
        flipped = flip_bytes(flips * (2 if target.expires else 1), bits) / interval_s
    passing = float(np.mean([false_positive_rate(values, bits) for values in held]))
    matching = _matching(join, kept_s)
    shipped = matching + (join.source.rate_per_s - matching) * passing
    return [
        _term(join, "B'1", shipped * join.source.tuple_bytes),
        _term(join, "flips", flipped, to_source=True, shared="copy"),
    ]


FORMULAS: dict[Method, Callable[[OneWayJoin], list[Term]]] = {
    Method.SP_S: _simple_at_source,
    Method.SP_D: _simple_at_destination,
    Method.SM_S1: _one_step_at_source,
    Method.SM_S2: _two_step_at_source,
    Method.SM_D1: _one_step_at_destination,
    Method.SM_D2: _two_step_at_destination,
    Method.SM_B: _filter_at_destination,
}


def shipped_cost(join: OneWayJoin, method: Method) -> JoinCost:
    """The cost of a one-way join by one method, in seconds of transfer alone, with the bytes of each term."""
    return JoinCost(method, tuple(FORMULAS[method](join)))
