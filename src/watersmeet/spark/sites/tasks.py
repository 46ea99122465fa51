"""The tasks of one site as data: what is packed of its streams, its levels as stages, how links are read.

    streams -> project -> pack ─┐
    links -> unpack ────────────┴> exchange -> level 1 -> ... -> answers, and rows for links

Spark's plan is wired from this, and so is the run of many sites in process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

from pyspark.sql.types import StructType

from watersmeet.kernel import Grid, LatenessPolicy, lay_out
from watersmeet.plan.sites.change_over import EVER, Tenure
from watersmeet.plan.sites.site_dataflow import SiteDataflow, row_keys, site_dataflow
from watersmeet.plan.sites.site_program import SiteProgram
from watersmeet.query import Query
from watersmeet.spark.compile.plan_inputs import InputPlanner
from watersmeet.spark.compile.plan_tasks import answer_schema
from watersmeet.spark.compile.tasks import PackRows
from watersmeet.spark.exchange.labels import bucket_labels
from watersmeet.spark.exchange.pack import Pack
from watersmeet.spark.exchange.unpack import UnpackAnswers
from watersmeet.spark.metrics.metrics import Metrics
from watersmeet.spark.multiquery.answers import Types
from watersmeet.spark.multiquery.metrics import dataflow_metrics
from watersmeet.spark.multiquery.ship import ship_inline
from watersmeet.spark.sites.link_file import UnpackLink
from watersmeet.spark.sites.pack import PackedSend, SitePack
from watersmeet.spark.sites.stage import SitePlan, SiteStage, stage_sends
from watersmeet.spark.sites.tail.plan_tail import plan_tail
from watersmeet.spark.sites.tail.value_stage import ValueStage
from watersmeet.spark.sites.topic_messages import UnpackTopic
from watersmeet.spark.tuning import DEFAULT, Tuning


@dataclass(frozen=True)
class Topic:
    """A link that is a topic, and by what name it knows the query."""

    name: str
    query: str


NO_TOPICS: Mapping[str, Topic] = MappingProxyType({})


class FilledSite(Protocol):
    """A site as those see it who fill its links."""

    @property
    def program(self) -> Any:
        """Its fingerprint, inputs and neighbours."""

    @property
    def sends(self) -> Mapping[str, Any]:
        """The ways that rows take, by name: each has a target."""


@dataclass(frozen=True, kw_only=True)
class SiteTasks:
    """One site's part of a query."""

    query: Query
    site: FilledSite
    inputs: tuple[PackRows, ...]
    links: Mapping[str, UnpackLink | UnpackTopic]  # by the site they come from
    stages: tuple[Any, ...]  # stateful stages, each with a plan that has a name
    labels: tuple[int, ...]
    metrics: Metrics
    reports_time: bool
    schema: StructType  # of complete combinations
    unpack: UnpackAnswers
    tenure: Tenure
    values: ValueStage | None = None  # of SELECT DISTINCT, after the SELECT list

    @property
    def residual(self) -> str | None:
        """The conditions over several inputs, as SQL."""
        return " AND ".join(f"({expr.sql})" for expr in self.query.residual) or None

    @property
    def select(self) -> tuple[tuple[str, str], ...]:
        """What is answered: SQL text and name."""
        return tuple((output.expr.sql, output.name) for output in self.query.select)


@dataclass(frozen=True)
class QueryParts:
    """What the tasks of a site are made from, whatever its plan is."""

    labels: tuple[int, ...]
    payload: tuple[tuple[str, tuple[str, ...]], ...]  # of each input, the columns that answers need
    packed: tuple[PackRows, ...]
    reports_time: bool


def plan_parts(query: Query, partitions: int, tuning: Tuning) -> QueryParts:
    """The packing of every input of a query, and what its answers need, for so many buckets."""
    labels = bucket_labels(partitions)
    payload = tuple((item.alias, query.payload(item.alias)) for item in query.inputs)
    inputs = InputPlanner(
        query=query,
        layouts=lay_out(query).inputs,
        direct={},
        grid=Grid((partitions,)),
        labels=labels,
        tuning=tuning,
    )
    return QueryParts(
        labels=labels,
        payload=tuple((alias, columns) for alias, columns in payload if columns),
        packed=tuple(task for task in inputs.tasks() if isinstance(task, PackRows)),
        reports_time=inputs.reports_time,
    )


def plan_site_tasks(
    query: Query,
    program: SiteProgram,
    types: Types,
    partitions: int,
    tuning: Tuning = DEFAULT,
    topics: Mapping[str, Topic] = NO_TOPICS,
    tenure: Tenure = EVER,
) -> SiteTasks:
    """The tasks of one site, with so many buckets; `types` are those of the streams' columns.

    `topics` are the links that are topics, by the site they come from; all others are folders. Of the answers
    those within the `tenure` are given.
    """
    site, parts = site_dataflow(query, program), plan_parts(query, partitions, tuning)
    labels = parts.labels
    metrics = dataflow_metrics({alias: alias for alias in program.aliases}, site.dataflow, program.sources)
    tail = plan_tail(query, program, site.answer_leaves, labels, metrics, tuning)
    own = [_packed(query, site, task, tenure) for task in parts.packed if task.alias in program.aliases]
    return SiteTasks(
        query=query,
        site=site,
        inputs=tuple(own),
        links={source: _unpacked(site, source, labels, topics.get(source)) for source in program.sources},
        stages=(*_stages(query, site, labels, tuning, is_held=bool(tail.stages)), *tail.stages),
        labels=labels,
        metrics=metrics,
        reports_time=parts.reports_time,
        schema=answer_schema(query, parts.payload, types),
        unpack=UnpackAnswers(parts.payload, query.distinct, query.aggregate is not None),
        tenure=tenure,
        values=tail.values,
    )


def _packed(query: Query, site: SiteDataflow, task: PackRows, tenure: Tenure) -> PackRows:
    alias, pack = task.alias, task.pack
    assert isinstance(pack, Pack)
    layout, keys = pack.layout, row_keys(query, (task.alias,))
    columns = [(name, layout.key(cls)) for cls, name in keys.items()]
    columns += [(f"{alias}.{column}", column) for column in query.payload(alias)]
    sends = tuple(
        PackedSend(
            send.name,
            next(iter(keys.values())) if send.crosses else site.ports[send.port.name].route,
            send.guard,
            "" if send.guard is None else keys[send.guard.attribute],
        )
        for send in site.program.sends
        if send.origin == alias
    )
    window = query.input(alias).window
    return replace(
        task,
        pack=SitePack(
            alias=alias,
            window=window,
            pack=pack,
            columns=tuple(columns),
            sends=sends,
            after_us=tenure.after_us,
        ),
    )


def _unpacked(
    site: SiteDataflow, source: str, labels: tuple[int, ...], topic: Topic | None
) -> UnpackLink | UnpackTopic:
    ports = {send.name: site.ports[send.port.name] for send in site.program.receives if send.source == source}
    ours = (source, site.program.site, site.program.fingerprint, ports, labels)
    return UnpackLink(*ours) if topic is None else UnpackTopic(*ours, topic.query, topic.name)


def _stages(
    query: Query, site: SiteDataflow, labels: tuple[int, ...], tuning: Tuning, *, is_held: bool
) -> tuple[SiteStage, ...]:
    ship, program = ship_inline(site.dataflow), site.program
    lateness = {alias: LatenessPolicy(query.input(alias).stream.lateness_us) for alias in program.aliases} | {
        send.origin: LatenessPolicy() for send in program.receives
    }
    plan = SitePlan(
        name="",
        level=0,
        ship=ship,
        lateness=lateness,
        names={alias: alias for alias in program.aliases},
        attributes=dict.fromkeys(program.aliases, 1),
        labels=labels,
        fingerprint=f"{program.fingerprint} at {program.site} in {len(labels)}",
        sends=stage_sends(query, site),
        links=program.sources,
        received={send.name: site.ports[send.port.name] for send in program.receives},
        is_held=is_held,
        tuning=tuning,
    )
    return tuple(
        SiteStage(replace(plan, name=f"level {level} at {program.site}", level=level))
        for level in range(1, site.dataflow.levels + 1)
    )
