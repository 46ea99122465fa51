"""The tasks of one site of a semijoin plan: what is packed of its streams, its lanes as a stage, its links.

streams -> project -> pack ─┐
links -> unpack ────────────┴> exchange -> lanes -> answers, and mail for links
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

import pyarrow as pa

from watersmeet.kernel import LatenessPolicy, route_rows
from watersmeet.plan.sites.change_over import EVER, Tenure
from watersmeet.plan.sites.semijoin.multiway.semijoin_program import SemijoinProgram
from watersmeet.plan.sites.semijoin.multiway.steps import shared_copies
from watersmeet.plan.sites.site_dataflow import row_keys
from watersmeet.query import Query
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.compile.plan_tasks import answer_schema
from watersmeet.spark.compile.tasks import PackRows
from watersmeet.spark.exchange.collect import Collected
from watersmeet.spark.exchange.pack import Pack
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.exchange.unpack import UnpackAnswers
from watersmeet.spark.multiquery.answers import Types
from watersmeet.spark.multiquery.messages import LevelRows
from watersmeet.spark.multiquery.metrics import dataflow_metrics
from watersmeet.spark.sites.link_file import UnpackLink
from watersmeet.spark.sites.messages import PieceRows, SiteMessage
from watersmeet.spark.sites.pack import SitePack
from watersmeet.spark.sites.semijoin.bucket import MAIL, BucketPlan, mail_from, own_rows
from watersmeet.spark.sites.semijoin.mail import LANE, Sides
from watersmeet.spark.sites.semijoin.stage import SemijoinStage, SemijoinStagePlan, mail_to
from watersmeet.spark.sites.tail.plan_tail import plan_tail
from watersmeet.spark.sites.tasks import NO_TOPICS, SiteTasks, Topic, plan_parts
from watersmeet.spark.sites.topic_messages import MessageKey, UnpackTopic, piece_name
from watersmeet.spark.tuning import DEFAULT, Tuning


@dataclass(frozen=True)
class MailSend:
    """What goes to one site."""

    name: str
    target: str


@dataclass(frozen=True)
class SemijoinSite:
    """A site of a semijoin plan, as those see it who fill its links."""

    program: SemijoinProgram

    @property
    def sends(self) -> dict[str, MailSend]:
        return {mail_to(site): MailSend(mail_to(site), site) for site in self.program.targets}


@dataclass(frozen=True, kw_only=True)
class SemijoinPack(SitePack):
    """Packs one input: its tuples go to the lanes of their values."""

    lanes: int
    route: str  # the column by whose value lanes are told

    def _messages(self, collected: Collected) -> list[SiteMessage]:
        sent, labels = super()._messages(collected), self.pack.labels
        for lane, part in route_rows(self._rows(collected.tuples), self.route, self.lanes):
            label = labels[lane % len(labels)]
            sent.append(LevelRows(label, 1, own_rows(self.alias, lane), PackedChunk(part)))
        return sent


@dataclass(frozen=True)
class UnpackMail(UnpackLink):
    """Makes messages of a link's mail; called by `mapInArrow` at the site it comes to."""

    def _rows(self, source: str, rows: pa.RecordBatch) -> Iterator[LevelRows]:
        for n, lane in enumerate(rows.column(LANE).to_pylist()):
            label = self.labels[lane % len(self.labels)]
            yield LevelRows(label, 1, mail_from(self.link), PackedChunk(rows.slice(n, 1)))


@dataclass(frozen=True)
class UnpackMailTopic(UnpackTopic):
    """The same for a link that is a topic."""

    def _rows(self, key: MessageKey, rows: pa.RecordBatch) -> Iterator[SiteMessage]:
        for n, lane in enumerate(rows.column(LANE).to_pylist()):
            label = self.labels[lane % len(self.labels)]
            yield PieceRows(label, piece_name(asdict(key)), PackedChunk(rows.slice(n, 1)))


def plan_semijoin_tasks(
    query: Query,
    program: SemijoinProgram,
    types: Types,
    partitions: int,
    tuning: Tuning = DEFAULT,
    topics: Mapping[str, Topic] = NO_TOPICS,
    tenure: Tenure = EVER,
) -> SiteTasks:
    """The tasks of one site, with so many buckets, as `plan_site_tasks` has them for other plans."""
    parts = plan_parts(query, partitions, tuning)
    labels = parts.labels
    dataflow = SharedDataflow(levels=1, streams=(program.site,))
    names = {alias: alias for alias in program.aliases}
    metrics = dataflow_metrics(names, dataflow, program.sources)
    origins = (MAIL,) if program.site in program.plan.answer_sites else ()
    tail = plan_tail(query, program, origins, labels, metrics, tuning)
    plan = SemijoinStagePlan(
        name=f"lanes at {program.site}",
        bucket=_bucket_plan(query, program, tuning),
        payload=parts.payload,
        labels=labels,
        fingerprint=f"{program.fingerprint} at {program.site} in {len(labels)}",
        dataflow=dataflow,
        is_held=bool(tail.stages),
        tuning=tuning,
    )
    return SiteTasks(
        query=query,
        site=SemijoinSite(program),
        inputs=tuple(
            _packed(query, program, task, tenure) for task in parts.packed if task.alias in program.aliases
        ),
        links={source: _unpacked(program, source, labels, topics.get(source)) for source in program.sources},
        stages=(SemijoinStage(plan), *tail.stages),
        labels=labels,
        metrics=metrics,
        reports_time=parts.reports_time,
        schema=answer_schema(query, parts.payload, types),
        unpack=UnpackAnswers(parts.payload, query.distinct, query.aggregate is not None),
        tenure=tenure,
        values=tail.values,
    )


def _bucket_plan(query: Query, program: SemijoinProgram, tuning: Tuning) -> BucketPlan:
    return BucketPlan(
        program=program,
        graph=query.graph,
        windows={item.alias: item.window for item in query.inputs},
        lateness={alias: LatenessPolicy(query.input(alias).stream.lateness_us) for alias in program.aliases},
        sides=_sides(query, program),
        tuning=tuning,
    )


def _sides(query: Query, program: SemijoinProgram) -> Sides:
    copies, steps = list(enumerate(shared_copies(program.plan))), program.plan.steps
    return Sides(
        sources={(copy, n): steps[step].source for copy, served in copies for n, step in enumerate(served)},
        targets={copy: steps[served[0]].target for copy, served in copies},
        keys={copy: steps[served[0]].key for copy, served in copies},
        columns={alias: row_keys(query, (alias,)) for alias in query.graph.aliases},
        classes=len(query.graph.classes),
        interval_us=program.interval_us,
    )


def _unpacked(
    program: SemijoinProgram, source: str, labels: tuple[int, ...], topic: Topic | None
) -> UnpackMail | UnpackMailTopic:
    plan = program.fingerprint
    if topic is None:
        return UnpackMail(source, program.site, plan, {}, labels)
    return UnpackMailTopic(source, program.site, plan, {}, labels, topic.query, topic.name)


def _packed(query: Query, program: SemijoinProgram, task: PackRows, tenure: Tenure) -> PackRows:
    alias, pack = task.alias, task.pack
    assert isinstance(pack, Pack)
    layout, keys = pack.layout, row_keys(query, (task.alias,))
    columns = [(name, layout.key(cls)) for cls, name in keys.items()]
    columns += [(f"{alias}.{column}", column) for column in query.payload(alias)]
    first = next(iter(keys)) if program.lane_class is None else program.lane_class
    own = SemijoinPack(
        alias=alias,
        window=query.input(alias).window,
        pack=pack,
        columns=tuple(columns),
        sends=(),
        after_us=tenure.after_us,
        lanes=program.lanes,
        route=keys[first],
    )
    return replace(task, pack=own)
