"""A shared dataflow as text: its joins by level, how many queries share each, its feeds, what they save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from watersmeet.plan.multiquery.describe import describe_join, queries_sharing
from watersmeet.plan.multiquery.savings import measure_savings
from watersmeet.plan.sites.plan_tree import number
from watersmeet.query import Stream
from watersmeet.query.shared_dataflow import SharedDataflow

SHOWN = 20  # joins of a level, and feeds, that are listed


def explain_dataflow(dataflow: SharedDataflow, streams: Sequence[Stream] = (), shown: int = SHOWN) -> str:
    """As much of a dataflow as a person can take in; given the streams' declarations, also what it saves."""
    parts = [
        (f"level {level}", level_lines(dataflow, level, shown)) for level in range(1, dataflow.levels + 1)
    ]
    parts.append(("feeds", _feed_lines(dataflow, shown)))
    parts.append(("against indexing every attribute", _saving_lines(dataflow, streams)))
    head = (
        f"shared dataflow of {_count(len(dataflow.tails), 'query', 'queries')} over "
        f"{_count(len({feed.stream for feed in dataflow.feeds}), 'stream')}: "
        f"{_count(len(dataflow.feeds), 'feed')}, "
        f"{_count(len(dataflow.relations), 'relation')}, {_count(len(dataflow.joins), 'join')}"
    )
    titled = [f"{title}\n" + "\n".join(f"  {line}" for line in lines) for title, lines in parts if lines]
    return "\n\n".join([head, *titled])


def level_lines(dataflow: SharedDataflow, level: int, shown: int = SHOWN) -> list[str]:
    """The joins of a level, those first that most queries share, and then the values that meet there."""
    shared, tails = queries_sharing(dataflow), Counter(each.join for each in dataflow.tails)
    relations = {relation.name: relation for relation in dataflow.relations}
    joins = sorted(
        (join for join in dataflow.joins if join.level == level),
        key=lambda join: (-shared[join.name], join.name),
    )
    lines = []
    for join in joins[:shown]:
        ends = f", {tails[join.name]} ending here" if tails[join.name] else ""
        users = _count(shared[join.name], "query", "queries")
        lines.append(f"{join.name}  {describe_join(join, relations)}; {users}{ends}")
    before = {join.name for join in dataflow.joins if join.level == level - 1}
    distinct = sum(tail.has_values and tail.join in before for tail in dataflow.tails)
    values = [f"values of {_count(distinct, 'query', 'queries')}, let out as they appear"] if distinct else []
    return _shortened(lines, len(joins)) + values


def _feed_lines(dataflow: SharedDataflow, shown: int) -> list[str]:
    lines = []
    for feed in dataflow.feeds[:shown]:
        carried = [*(key.name for key in feed.keys), *feed.columns]
        levels = ", ".join(map(str, feed.levels))
        lines.append(
            f"{feed.name}  carries {', '.join(carried)}; level{'s' * (len(feed.levels) > 1)} {levels}"
        )
    return _shortened(lines, len(dataflow.feeds))


def _saving_lines(dataflow: SharedDataflow, streams: Sequence[Stream]) -> list[str]:
    if not streams:
        return []
    savings = measure_savings(dataflow, streams)
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
