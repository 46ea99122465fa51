"""A ring as text: its joins by level with how many queries share each, its feeds, what they spare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from watersmeet.plan.plan_tree import number
from watersmeet.plan.ring_savings import ring_savings
from watersmeet.query import Stream
from watersmeet.query.ring import Join, Relation, Ring

SHOWN = 20  # joins of a level, and feeds, that are listed


def explain_ring(ring: Ring, streams: Sequence[Stream] = (), shown: int = SHOWN) -> str:
    """All of a ring that a person can take in; with the streams' declarations also what it spares."""
    parts = [(f"level {level}", level_lines(ring, level, shown)) for level in range(1, ring.levels + 1)]
    parts.append(("feeds", _feed_lines(ring, shown)))
    parts.append(("against indexing every attribute", _saving_lines(ring, streams)))
    head = (
        f"ring of {_count(len(ring.endings), 'query', 'queries')} over "
        f"{_count(len({feed.stream for feed in ring.feeds}), 'stream')}: {_count(len(ring.feeds), 'feed')}, "
        f"{_count(len(ring.relations), 'relation')}, {_count(len(ring.joins), 'join')}"
    )
    titled = [f"{title}\n" + "\n".join(f"  {line}" for line in lines) for title, lines in parts if lines]
    return "\n\n".join([head, *titled])


def level_lines(ring: Ring, level: int, shown: int = SHOWN) -> list[str]:
    """The joins of a level, those first that most queries share."""
    shared, ending = queries_sharing(ring), Counter(each.join for each in ring.endings)
    relations = {relation.name: relation for relation in ring.relations}
    joins = sorted(
        (join for join in ring.joins if join.level == level), key=lambda join: (-shared[join.name], join.name)
    )
    lines = []
    for join in joins[:shown]:
        ends = f", {ending[join.name]} ending here" if ending[join.name] else ""
        users = _count(shared[join.name], "query", "queries")
        lines.append(f"{join.name}  {describe_join(join, relations)}; {users}{ends}")
    return _shortened(lines, len(joins))


def describe_join(
    join: Join, relations: Mapping[str, Relation], made: Mapping[str, str] | None = None
) -> str:
    """What meets what, by which attribute; `made` says what to call the results of joins."""
    members = [relations[name] for name in join.members]
    met = ", ".join(
        f"{one.slot or (made or {}).get(one.source, one.source)} by {one.route}" for one in members
    )
    routes = {one.qualified(one.route) for one in members}
    also = [f"{left} = {right}" for left, right in join.equalities if not {left, right} <= routes]
    return f"{met} where {' and '.join(also)}" if also else met


def queries_sharing(ring: Ring) -> Counter[str]:
    """For every join, how many queries need its results."""
    source = {relation.name: relation.source for relation in ring.relations}
    shared: Counter[str] = Counter(ending.join for ending in ring.endings)
    for join in sorted(ring.joins, key=lambda join: -join.level):
        for below in {source[member] for member in join.members}:
            shared[below] += shared[join.name]
    return shared


def _feed_lines(ring: Ring, shown: int) -> list[str]:
    lines = []
    for feed in ring.feeds[:shown]:
        carried = [*(key.name for key in feed.keys), *feed.columns]
        levels = ", ".join(map(str, feed.levels))
        lines.append(
            f"{feed.name}  carries {', '.join(carried)}; level{'s' * (len(feed.levels) > 1)} {levels}"
        )
    return _shortened(lines, len(ring.feeds))


def _saving_lines(ring: Ring, streams: Sequence[Stream]) -> list[str]:
    if not streams:
        return []
    savings = ring_savings(ring, streams)
    lines = [
        f"{each.stream}  sent {each.sent} times, not {each.attributes}; "
        f"{each.values} values, not {each.values_of_everything}; kept {each.kept} times"
        for each in savings.streams
    ]
    shares = (("sent", savings.sent_share()), ("values", savings.values_share()))
    return [*lines, ", ".join(f"{name} {number(100 * share)} %" for name, share in shares)]


def _shortened(lines: list[str], count: int) -> list[str]:
    return [*lines, f"and {count - len(lines)} more"] if count > len(lines) else lines


def _count(many: int, one: str, several: str = "") -> str:
    return f"{many} {one if many == 1 else several or one + 's'}"
