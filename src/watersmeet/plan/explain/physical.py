"""A physical plan as text: its sources, its routing, its stages, what is kept and for how long."""

from __future__ import annotations

from watersmeet.plan.explain.hot_values import describe_hot_values
from watersmeet.plan.multiquery.describe import describe_levels
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.routing.rewriting import describe_ways
from watersmeet.plan.routing.routing import Native, Pipeline, Rewrite, Shares, TreePipeline
from watersmeet.plan.routing.tree_stages import StagedTree
from watersmeet.query import ColumnRef, Input, Query, format_duration
from watersmeet.query.expression import quote_ref
from watersmeet.query.join_tree import latest_us
from watersmeet.query.shared_dataflow import SharedDataflow


def explain_plan(plan: PhysicalPlan) -> str:
    """The whole plan, section by section."""
    parts = [
        ("sources", _connections(plan.query)),
        ("query", plan.query.pretty().split("\n")),
        ("routing", _routing_lines(plan)),
        ("hot values", _hot_lines(plan)),
        ("stages", stage_lines(plan)),
        ("state", state_lines(plan)),
    ]
    return "\n\n".join(
        "\n".join([title, *(f"  {line}" for line in lines)]) for title, lines in parts if lines
    )


def stage_lines(plan: PhysicalPlan) -> list[str]:
    """The stages in order, each as one line."""
    query = plan.query
    if isinstance(plan.routing, Native):
        return ["cascade of Spark's own joins, in FROM order"]
    aliases = ", ".join(item.alias for item in query.inputs)
    stages = [f"pack   filter, project and cut by bucket {aliases}"]
    if query.numbers_rows:
        numbered = ", ".join(item.alias for item in query.inputs if item.window.numbers_rows)
        stages.append(f"number rows of {numbered} in order of event time, in a single partition")
    match plan.routing:
        case Shares(hypercube):
            buckets = f"{len(query.inputs)} inputs in {hypercube.buckets_used} buckets"
            stages.append(f"join   {buckets}{_holding(query)}")
            stages += [f"       {line}" for line in _counting_lines(plan)]
        case Pipeline(dataflow) | Rewrite(dataflow):
            levels = describe_levels(dataflow, query.graph.aliases)
            stages += [f"join   {line} in {plan.partitions} buckets" for line in levels]
            stages[-1] += _holding(query)
        case TreePipeline(staged):
            lines = staged.pretty().split("\n")
            stages += [f"join   {line} in {plan.partitions} buckets" for line in lines]
            stages[-1] += _holding(query)
    residual = " and ".join(expr.pretty() for expr in query.residual)
    selected = ", ".join(output.name for output in query.select)
    stages.append(f"select {f'where {residual}, ' if residual else ''}{selected}")
    if query.aggregate:
        stages.append("group  by tick and group, by Spark's own aggregation")
    elif query.distinct:
        stages.append(f"unique values by hash in {plan.partitions} buckets, let out as they appear")
    return stages


def state_lines(plan: PhysicalPlan) -> list[str]:
    """What is kept of each input, and for how long."""
    kept = [f"{item.alias}: {_kept(plan, item)}" for item in plan.query.inputs]
    match plan.routing:
        case Pipeline(dataflow) | Rewrite(dataflow):
            results = [one for one in dataflow.relations if one.slot is None]
            kept += [f"results by {one.route}: until the first of their tuples expires" for one in results]
        case TreePipeline(staged):
            kept += _kept_results(plan.query, staged)
    return kept


def _kept_results(query: Query, staged: StagedTree) -> list[str]:
    """What is kept of the results of stages, and how late they come."""
    windows, lines = {item.alias: item.window for item in query.inputs}, []
    for number, stage in enumerate(staged.stages[:-1]):
        latest = latest_us(stage.tree, windows)
        late = f", they come up to {format_duration(latest)} behind the watermark" if latest else ""
        by = next(
            each.pretty()
            for each in staged.stages[staged.goes_to[number]].key.attributes
            if each.alias in stage.tree.aliases
        )
        lines.append(f"results of stage {number + 1} by {by}: until the first of their tuples expires{late}")
    return lines


def _counting_lines(plan: PhysicalPlan) -> list[str]:
    """Where the rows of PARTITION BY inputs are counted."""
    lines = []
    for item in plan.query.inputs:
        if item.window.partition:
            by, copies = ", ".join(item.window.partition), plan.copies(item.alias)
            where = f"every one of {copies} buckets" if copies > 1 else "its bucket"
            lines.append(f"rows of {item.alias} are counted by {by} in {where}, behind the watermark")
    return lines


def _holding(query: Query) -> str:
    """Why the join does not answer at once, if so."""
    if query.aggregate:
        when = "at the end of every" if query.aggregate.at_end else "every"
        return f", sampled {when} {format_duration(query.aggregate.emit_every_us)}"
    return ", held until the watermark is past them" if query.distinct else ""


def _routing_lines(plan: PhysicalPlan) -> list[str]:
    aliases = plan.query.graph.aliases
    match plan.routing:
        case Native():
            return ["native: a cascade of Spark's own joins"]
        case Shares(hypercube):
            return hypercube.pretty().split("\n")
        case Pipeline(dataflow, reason):
            return [f"pipeline of {_levels(dataflow)} levels: {reason}", *describe_levels(dataflow, aliases)]
        case TreePipeline(staged, reason):
            return [f"pipeline of {len(staged.stages)} stages: {reason}", *staged.pretty().split("\n")]
        case Rewrite(dataflow, reason):
            choices = [describe_ways(dataflow, join) for join in dataflow.joins if join.ways]
            head = f"rewriting in {_levels(dataflow)} levels: {reason}"
            return [head, *describe_levels(dataflow, aliases), *choices]


def _levels(dataflow: SharedDataflow) -> int:
    return len({join.level for join in dataflow.joins})


def _hot_lines(plan: PhysicalPlan) -> list[str]:
    if not isinstance(plan.routing, Shares):
        return []
    return [line for each in plan.routing.hot_values for line in describe_hot_values(each)]


def _connections(query: Query) -> list[str]:
    """Where streams come from that are no files, what is secret left out."""
    return [
        f"{stream.name} from {stream.source.pretty()}"
        for stream in query.streams
        if stream.source is not None and stream.source.option("path") is None
    ]


def _kept(plan: PhysicalPlan, item: Input) -> str:
    keys = [cls.of(item.alias) for cls in plan.query.graph.classes]
    columns = dict.fromkeys(
        [
            *(key.expr.pretty() for key in keys if key),
            *(quote_ref(ColumnRef(item.alias, name)) for name in plan.query.payload(item.alias)),
            "event time",
        ]
    )
    copies = plan.copies(item.alias)
    replicated = f", in {copies} copies" if copies > 1 else ""
    return f"{', '.join(columns)}{replicated}; {_lifetime(item)}"


def _lifetime(item: Input) -> str:
    late = f" and lateness {format_duration(item.stream.lateness_us)}" if item.stream.lateness_us else ""
    return item.window.describe_retention() + (late if item.window.is_bounded else "")
