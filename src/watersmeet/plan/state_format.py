"""The state format: what a checkpoint's state depends on, as data, and how a change of it is put into words.

A checkpoint can be resumed only by the query that wrote it, or by one that takes over its state
(`take_over.py`). Its *identity* says which query that was. It is canonical JSON, taken from the bound query
and its routing, never from a text that explains them. So explanations may be reworded, and old checkpoints
still fit. It has two parts:

    state   what the bytes in the state store depend on: partitions, inputs with windows, filters, event times
            and columns, join classes, the tree of joins where not all are inner, routing, and, for DISTINCT
            and aggregates, the answers kept
    query   the rest of what the query means: its sink and, where no answers are kept, its SELECT list and
            conditions over several inputs

The identity leaves out what may change between two runs: lateness, idle_after, max_ahead, the limit of
memory, options of sources and sinks, statistics, probing orders.

`STATE_FORMAT` is the version of all this and of the bytes themselves: the head record, chunks and their
narrowing, names of keys and sections, snapshots of buckets, and the hashes by which tuples find their bucket.
Tests compare it with the golden files in tests/state_format and fail when any of it changes. Raise the number
then, unless no released version has written the present one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.plan.routing.routing import Native, Pipeline, Rewrite, Routing, Shares, TreePipeline
from watersmeet.plan.routing.tree_stages import TreeStage
from watersmeet.query import Block, Expr, Input, JoinGraph, Query, Stream, Tree, format_duration
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.query.window import window_from_json

STATE_FORMAT = 4

COLUMN, COLUMN_ORDER = "column ", "order of columns"
LINE = 80  # characters of a difference that fits on one line

Facts = dict[tuple[str, str], str]  # by whose they are, nothing for the whole query's, and what about

# Formats 1 to 3, and 1 of shared dataflows, were lines of text of which the first gave the number.
_FORMAT = re.compile(r"(?P<kind>state|ring) format (?P<number>\d+)")


@dataclass(frozen=True)
class StateIdentity:
    """What must be the same for a checkpoint to be resumed; all of it is fit for JSON."""

    state: Mapping[str, Any]
    query: Mapping[str, Any]

    @property
    def partitions(self) -> int:
        """Of the shuffle: the state is cut by them."""
        return int(self.state["partitions"])

    @property
    def routing(self) -> str:
        """How the query is routed: shares, pipeline, rewrite or native."""
        return str(self.state["routing"]["kind"])

    @property
    def shares(self) -> tuple[int, ...]:
        """The shares of the join classes, where the query is routed by them."""
        return tuple(self.state["routing"].get("shares", ()))

    def to_json(self) -> dict[str, Any]:
        return {"format": STATE_FORMAT, "state": self.state, "query": self.query}

    @property
    def fingerprint(self) -> str:
        """The identity as one text, the same wherever it is written; the state store holds it."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))


def identity_from_json(fields: Mapping[str, Any]) -> StateIdentity:
    """An identity as it was stored; refuses one of another format, ValueError or KeyError if it is none."""
    if not isinstance(fields["format"], int):
        raise ValueError("the number of a state format is a whole number")
    if fields["format"] != STATE_FORMAT:
        raise ConfigurationError(describe_other_format(f"state format {fields['format']}"))
    identity = StateIdentity(fields["state"], fields["query"])
    facts_of(identity.to_json())  # so that it is complete
    return identity


def identify_query(query: Query, partitions: int, routing: Routing) -> StateIdentity:
    """The identity of one query."""
    answers = {
        "distinct": query.distinct,
        "select": [[output.name, output.expr.sql] for output in query.select],
        "conditions": _texts(query.residual),
        "group_by": _texts(query.aggregate.group_by) if query.aggregate else [],
        "having": query.aggregate.having.sql if query.aggregate and query.aggregate.having else None,
        "emit_every_us": query.aggregate.emit_every_us if query.aggregate else None,
        **({"emit_at_end": True} if query.aggregate and query.aggregate.at_end else {}),
    }
    state = {
        "partitions": partitions,
        "inputs": [_input(query, item) for item in query.inputs],
        "classes": _classes(query.graph),
        "routing": _routing(routing),
    }
    if query.tree is not None:
        state["tree"] = _tree(query.tree)
    if query.distinct or query.aggregate is not None:
        return StateIdentity({**state, "answers": answers}, {"sink": query.sink})
    return StateIdentity(state, {"sink": query.sink, "answers": answers})


def identify_dataflow(levels: int, streams: Iterable[Stream], partitions: int) -> StateIdentity:
    """The identity of a dataflow that many queries share: queries come and go, so it names none of them.

    What it keeps for them has names that say all that the rows depend on (`plan/multiquery`).
    """
    described = [
        {"name": stream.name, "event_time": _event_time(stream), "columns": _columns(stream)}
        for stream in streams
    ]
    return StateIdentity({"partitions": partitions, "levels": levels, "streams": described}, {})


def _texts(expressions: Iterable[Expr]) -> list[str]:
    return [expr.sql for expr in expressions]


def _event_time(stream: Stream) -> str | None:
    computed = stream.computed_time
    return stream.event_time if computed is None else f"{stream.event_time} from {computed.pretty()}"


def _columns(stream: Stream) -> list[list[str]]:
    return [[column.name, column.type] for column in stream.columns]


def _classes(graph: JoinGraph) -> list[dict[str, Any]]:
    return [
        {"equal": [attribute.expr.sql for attribute in cls.attributes], "type": cls.type}
        for cls in graph.classes
    ]


def _tree(tree: Tree) -> dict[str, Any]:
    """A tree of outer, semi and anti joins; state that has none says nothing of it."""
    if isinstance(tree, Block):
        return {
            "inputs": list(tree.aliases),
            "classes": _classes(tree.graph),
            "conditions": _texts(tree.residual),
        }
    return {
        "join": tree.kind.value,
        "sides": [_tree(tree.left), _tree(tree.right)],
        "equal": [[each.left.sql, each.right.sql, each.type] for each in tree.equalities],
        "conditions": _texts(tree.residual),
    }


def _input(query: Query, item: Input) -> dict[str, Any]:
    read = set(query.columns_read(item.alias))
    # Under a ROWS window all columns are kept: they order the tuples of one instant.
    kept = [pair for pair in _columns(item.stream) if pair[0] in read or item.window.counts_rows]
    described: dict[str, Any] = {
        "alias": item.alias,
        "stream": item.stream.name,
        "event_time": _event_time(item.stream),
        "window": item.window.to_json(),
        "filters": _texts(item.filters),
        "columns": kept,
    }
    if item.stream.view:
        described["view"] = [
            {**branch.to_json(), "event_time": _event_time(branch.stream)} for branch in item.stream.view
        ]
    return described


def _routing(routing: Routing) -> dict[str, Any]:
    match routing:
        case Shares(hypercube):
            return {"kind": routing.name, "shares": list(hypercube.shares)}
        case Pipeline(dataflow) | Rewrite(dataflow):
            return {"kind": routing.name, "joins": _joins(dataflow)}
        case TreePipeline(staged):
            return {"kind": routing.name, "stages": [_stage(stage) for stage in staged.stages]}
        case Native():
            return {"kind": routing.name}


def _stage(stage: TreeStage) -> dict[str, Any]:
    """A stage of a tree: what it joins, by what, and the stages whose results it takes, by position."""
    by = [attribute.expr.sql for attribute in stage.key.attributes]
    return {"inputs": list(stage.tree.aliases), "by": by, "type": stage.key.type, "takes": list(stage.takes)}


def _joins(pipeline: SharedDataflow) -> list[dict[str, Any]]:
    # State does not depend on how often tuples meet, nor on the order in which they are probed.
    joins = {join.name: number for number, join in enumerate(pipeline.joins)}
    relations = {relation.name: relation for relation in pipeline.relations}
    described = []
    for join in pipeline.joins:
        members = [relations[name] for name in join.members]
        further = [relations[way.relation] for way in join.ways]
        described.append(
            {
                "level": join.level,
                # An input by its alias, results by the number of their join, and what both are routed by.
                "members": [[one.slot or joins[one.source], one.route] for one in members],
                "equal": [list(pair) for pair in join.equalities],
                "on": [[one.level, one.route] for one in further],  # to one of these; nothing: to all
            }
        )
    return described


def describe_change(old: str, new: str, known: Facts | None = None) -> str:
    """Why a checkpoint of the fingerprint `old` does not fit the query of `new`, in words.

    What is `known` of the old query takes the place of what its fingerprint says.
    """
    if _FORMAT.match(old):
        return describe_other_format(old)
    try:
        stored = json.loads(old)
        if stored["format"] != STATE_FORMAT:
            return describe_other_format(f"state format {stored['format']}")
        before, now = known or facts_of(stored), facts_of(json.loads(new))
    except (ValueError, LookupError, TypeError):
        return "the state was not written by Watersmeet, or is damaged. Start anew with another checkpoint"
    lines = [f"  {line}\n" for line in describe_differences(before, now)]
    return (
        "the checkpoint was written by a different query; its state does not fit this one:\n"
        f"{''.join(lines)}"
        "  Give the changed query a new checkpoint directory, or restore the old query."
    )


def describe_differences(before: Facts, now: Facts) -> Iterator[str]:
    """A line for each fact that differs, without those that only follow from another one."""
    differ = {fact for fact in (*before, *now) if before.get(fact) != now.get(fact)}
    new_or_gone = {owner for owner, _ in before} ^ {owner for owner, _ in now}
    with_other_columns = {owner for owner, about in differ if about.startswith(COLUMN)}
    owners = list(dict.fromkeys(owner for owner, _ in (*before, *now)))
    for owner, about in sorted(dict.fromkeys([*before, *now]), key=lambda fact: owners.index(fact[0])):
        follows = owner in new_or_gone or (about == COLUMN_ORDER and owner in with_other_columns)
        if (owner, about) in differ and not follows:
            label = f"{about} of {owner}" if owner else about
            old, new = (facts.get((owner, about), "none") for facts in (before, now))
            between = " " if len(label + old + new) < LINE else "\n    "
            yield f"{label}: {old} in the checkpoint,{between}{new} in the query"


def describe_other_format(written: str) -> str:
    """Why a checkpoint of another format is refused, and what to do.

    `written` begins with the name of its format, 'state format 3'; ValueError if not.
    """
    found = _FORMAT.match(written)
    if found is None:
        raise ValueError(f"no state format: {written}")
    is_newer = found["kind"] == "state" and int(found["number"]) > STATE_FORMAT
    return (
        f"the checkpoint was written in {found[0]}, by {'a newer' if is_newer else 'an older'} version of "
        f"Watersmeet; this one reads state format {STATE_FORMAT}. Resume it with the version that wrote it, "
        "or start anew with another checkpoint"
    )


def facts_of(identity: Mapping[str, Any]) -> Facts:
    """All of an identity as facts a person can compare, by whose they are and what they are about."""
    state, query = identity["state"], identity["query"]
    facts = {("", "shuffle partitions"): str(state["partitions"])}
    if "streams" in state:
        facts["", "levels"] = str(state["levels"])
        facts["", "streams"] = _listed(stream["name"] for stream in state["streams"])
        for stream in state["streams"]:
            facts |= _stream_facts(stream["name"], stream)
        return facts
    facts["", "sink"] = query["sink"] or "none"
    facts["", "inputs"] = _listed(item["alias"] for item in state["inputs"])
    for item in state["inputs"]:
        alias = item["alias"]
        facts[alias, "stream"] = item["stream"]
        facts[alias, "window"] = window_from_json(item["window"]).pretty().strip("[]")
        facts[alias, "filters"] = _listed(item["filters"], " AND ")
        for number, branch in enumerate(item.get("view", ())):
            facts |= {(f"{alias}'s view", about): text for about, text in _branch_facts(number + 1, branch)}
        facts |= _stream_facts(alias, item)
    facts["", "joins"] = _listed(_class_texts(state["classes"]))
    if "tree" in state:
        facts["", "tree of joins"] = _tree_text(state["tree"])
    answers = state["answers"] if "answers" in state else query["answers"]
    return facts | _answer_facts(answers) | _routing_facts(state["routing"])


def _class_texts(classes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return (f"{' = '.join(cls['equal'])} as {cls['type'] or 'they are'}" for cls in classes)


def _tree_text(fields: Mapping[str, Any]) -> str:
    """A tree as one text: a left join (b, c on b.k = c.k as int) on a.k = b.k as int."""
    if "inputs" in fields:
        on = _listed([*_class_texts(fields["classes"]), *fields["conditions"]], " AND ")
        names = _listed(fields["inputs"])
        return names if on == "none" else f"({names} on {on})"
    left, right = (_tree_text(side) for side in fields["sides"])
    equal = (f"{one} = {other} as {type_ or 'they are'}" for one, other, type_ in fields["equal"])
    on = _listed([*equal, *fields["conditions"]], " AND ")
    return f"({left} {fields['join']} join {right} on {on})"


def _stream_facts(owner: str, fields: Mapping[str, Any]) -> Facts:
    facts = {(owner, "event time"): fields["event_time"] or "the time of arrival"}
    facts |= {(owner, f"{COLUMN}{name}"): type_ for name, type_ in fields["columns"]}
    return facts | {(owner, COLUMN_ORDER): _listed(name for name, _ in fields["columns"])}


def _branch_facts(number: int, branch: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a branch of a view reads, and what each of its steps makes of that."""
    yield f"stream {number}", f"{branch['stream']} by {branch['event_time'] or 'the time of arrival'}"
    for level, step in enumerate(branch["steps"]):
        columns = _listed(f"{sql} AS {name}" for name, sql in step["columns"])
        said = f"{columns} of {step['alias']}"
        if step["explode"]:
            array, alias, name, is_outer = step["explode"]
            said += f", exploding {array} as {alias}.{name}{', or NULL' if is_outer is True else ''}"
        said += f" where {_listed(step['filters'], ' AND ')}"
        yield f"SELECT {number}.{level + 1}", said


def _answer_facts(answers: Mapping[str, Any]) -> Facts:
    every = answers["emit_every_us"]
    return {
        ("", "DISTINCT"): "yes" if answers["distinct"] else "no",
        ("", "SELECT"): _listed(f"{sql} AS {name}" for name, sql in answers["select"]),
        ("", "conditions over several inputs"): _listed(answers["conditions"], " AND "),
        ("", "GROUP BY"): _listed(answers["group_by"]),
        ("", "HAVING"): answers["having"] or "none",
        ("", "EMIT EVERY"): "none" if every is None else format_duration(every),
        **({("", "EMIT AT END"): "yes"} if answers.get("emit_at_end") else {}),
    }


def _routing_facts(routing: Mapping[str, Any]) -> Facts:
    kind = routing["kind"]
    facts = {("", "routing"): kind}
    if "shares" in routing:
        facts["the join classes", "shares"] = " x ".join(map(str, routing["shares"])) or "1"
    for number, stage in enumerate(routing.get("stages", ()), 1):
        by = f"{' = '.join(stage['by'])} as {stage['type'] or 'they are'}"
        taken = "".join(f", with the results of stage {each + 1}" for each in stage["takes"])
        facts["the pipeline", f"stage {number}"] = f"{_listed(stage['inputs'])}{taken}, by {by}"
    made: list[str] = []  # what each join is of
    for join in routing.get("joins", ()):
        members = [made[of] if isinstance(of, int) else of for of, _ in join["members"]]
        made.append(" ⋈ ".join(members))
        routed = (f"{name} by {route}" for name, (_, route) in zip(members, join["members"], strict=True))
        text = f"{_listed(routed)} where {_listed((f'{a} = {b}' for a, b in join['equal']), ' AND ')}"
        if join["on"]:
            text += f", on to {_listed((f'level {level} by {route}' for level, route in join['on']), ' or ')}"
        fact = (f"the {kind}", f"level {join['level']}")
        facts[fact] = f"{facts[fact]}; {text}" if fact in facts else text
    return facts


def _listed(texts: Iterable[str], between: str = ", ") -> str:
    return between.join(texts) or "none"
