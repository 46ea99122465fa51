"""A plan across sites in process: an engine for each site, and links that are logs in memory.

Each site runs the tasks that Spark would be given. Its batches come when the script says so, and take what it
says of each link: any files that are there, in any order, however late.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.oracle.oracle import Row
from watersmeet.plan.sites.change_over import EVER, Tenure
from watersmeet.plan.sites.placement import place
from watersmeet.plan.sites.plan_tree import PlanNode
from watersmeet.plan.sites.site_program import site_programs
from watersmeet.query import NEVER, Query
from watersmeet.spark.exchange.messages import EndOfInput
from watersmeet.spark.exchange.unpack import CHUNK, UnpackValues
from watersmeet.spark.multiquery.answers import declared_types
from watersmeet.spark.multiquery.messages import Answers, Bounds, LevelMetrics, LevelRows
from watersmeet.spark.sites.batch_contents import joined_bounds
from watersmeet.spark.sites.link_file import marks_for
from watersmeet.spark.sites.messages import SITE_MESSAGES, SiteMessage
from watersmeet.spark.sites.plan_tasks import Program, plan_tasks
from watersmeet.spark.sites.tail.select_values import PackSelected
from watersmeet.spark.sites.tasks import SiteTasks, Topic
from watersmeet.testing.answers import (
    Combination,
    combinations,
    group_rows,
    select_rows,
    value_rows,
    values_of,
)
from watersmeet.testing.cluster import Cluster
from watersmeet.testing.script import Written, read_batch
from watersmeet.testing.setup import Setup
from watersmeet.testing.site_links import Log, TopicLog
from watersmeet.testing.sources import Arrived

Way = tuple[str, str]  # the site a link comes from, and the one it goes to


@dataclass(frozen=True)
class SiteStep:
    """What came of one micro-batch at a site."""

    answers: list[Row]
    metrics: Mapping[str, int]


class SitesInProcess:
    """All sites of a plan, and the links between them."""

    def __init__(
        self,
        query: Query,
        programs: PlanNode | Mapping[str, Program],
        setup: Setup | None = None,
        *,
        topics: bool = False,
        tenure: Tenure = EVER,
    ) -> None:
        self.setup = setup or Setup()
        self.topics = topics
        self.tenure = (
            tenure  # which answers are given; changed between batches, before a restart of all sites
        )
        self.programs: Mapping[str, Program] = (
            programs if isinstance(programs, Mapping) else site_programs(query, place(query, programs))
        )
        rng = random.Random(self.setup.seed)
        self.links = {
            (site, target): TopicLog(source=site, target=target, random=rng) if topics else Log()
            for site, program in self.programs.items()
            for target in program.targets
        }
        self.sites = {site: SiteInProcess(self, query, own) for site, own in self.programs.items()}

    @property
    def bytes_by_link(self) -> dict[Way, float]:
        """The bytes that have crossed each link so far, at the sizes of the statistics."""
        return {
            way: log.counts.priced_bytes(self.programs[way[0]].sends)
            for way, log in self.links.items()
            if log.counts.rows
        }


class SiteInProcess:
    """One site."""

    def __init__(self, run: SitesInProcess, query: Query, program: Program) -> None:
        self.program = program
        self.progress: Mapping[str, int] = {}
        self.state_rows = 0
        self.cluster = Cluster(run.setup.workers, run.setup.seed)
        self.aliases = program.aliases
        self.streams = {
            query.input(alias).stream.name: query.input(alias).stream for alias in program.aliases
        }
        self._run, self._query = run, query
        self._tasks = self._plan()
        self._repeats = 0

    def step(
        self,
        rows: Mapping[str, Sequence[Written]] | None = None,
        links: Mapping[str, Sequence[int]] | None = None,
        *,
        is_end: bool = False,
    ) -> SiteStep:
        """Runs a micro-batch: tuples by stream, and of each link the numbers of the files to read."""
        given = self._wire(rows or {}, links or {}, is_end)
        while self._repeats:
            self._repeats -= 1
            self._stages(given)
            self.cluster.roll_back()
            self.cluster.run += 1
        messages = self._stages(given)
        for source, numbers in (links or {}).items():
            self._run.links[source, self.program.site].read.update(numbers)
        self._publish(messages)
        self.cluster.commit()
        return SiteStep(self._answers(messages), self._metrics(messages))

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can come here."""
        return bool(self.progress) and all(mark == NEVER for mark in self.progress.values())

    @property
    def is_over(self) -> bool:
        """Whether the plan has found all answers of its tenure, as far as this site goes."""
        return self._tasks.tenure.is_over(self.progress)

    def restart(self, *, workers_stay: bool = False) -> None:
        """Stops the site and resumes it from its state."""
        self.cluster.run += 1
        if not workers_stay:
            self.cluster.lose_caches()
        self._tasks = self._plan()

    def repeat_next_batch(self) -> None:
        """The next micro-batch fails after all of its tasks are done, and is done again."""
        self._repeats += 1

    def _plan(self) -> SiteTasks:
        setup = self._run.setup
        types = declared_types(self._query.streams)
        topics = {source: Topic("t", "q") for source in self.program.sources} if self._run.topics else {}
        return plan_tasks(
            self._query, self.program, types, setup.partitions, setup.tuning, topics, self._run.tenure
        )

    def _wire(
        self, rows: Mapping[str, Sequence[Written]], links: Mapping[str, Sequence[int]], is_end: bool
    ) -> list[pa.RecordBatch]:
        """The rows that reach the first level."""
        tasks, read = self._tasks, read_batch(rows, list(self.streams.values()))
        arrived = Arrived(self.streams, read, None, self._run.setup.map_tasks)
        found: list[pa.RecordBatch] = []
        for task in tasks.inputs:
            columns = [(each.name, each.sql, each.type) for each in task.columns]
            found += self.cluster.run_map(task.pack, arrived.project(task.stream, [task.alias], columns))
        for source, numbers in links.items():
            log = self._run.links[source, self.program.site]
            found += self.cluster.run_map(tasks.links[source], [log.files[number] for number in numbers])
        if is_end:
            found.append(SITE_MESSAGES.to_arrow([EndOfInput(label) for label in tasks.labels]))
        return found

    def _stages(self, given: list[pa.RecordBatch]) -> list[SiteMessage]:
        """What leaves the last level."""
        for stage in self._tasks.stages:
            rows = self.cluster.run_stage(stage.plan.name, stage, SITE_MESSAGES.spark_schema, given)
            given = [batch for own in rows.values() for batch in own]
        messages = [message for batch in given for message in SITE_MESSAGES.from_arrow(batch)]
        values = self._tasks.values
        if values is None:
            return messages
        selected = select_rows(self._query, self._combinations(messages))
        pack = PackSelected(values.plan.columns, values.plan.labels)
        others = [message for message in messages if not isinstance(message, Answers)]
        found = pack.messages(values_of(self._query, selected)) if selected else []
        rows = self.cluster.run_stage(
            values.plan.name, values, SITE_MESSAGES.spark_schema, [SITE_MESSAGES.to_arrow([*others, *found])]
        )
        return [m for own in rows.values() for batch in own for m in SITE_MESSAGES.from_arrow(batch)]

    def _publish(self, messages: Sequence[SiteMessage]) -> None:
        """Writes a file onto every link that has something to say."""
        reports = [json.loads(message.body) for message in messages if isinstance(message, Bounds)]
        known = joined_bounds(reports)
        if known is None:
            return
        self.progress = known["after"]
        sends = self._tasks.site.sends
        for target in self.program.targets:
            rows = [
                message
                for message in messages
                if isinstance(message, LevelRows) and sends[message.source].target == target
            ]
            before, after = (marks_for(self._tasks.site, target, known[when]) for when in ("before", "after"))
            if rows or before != after:
                log = self._run.links[self.program.site, target]
                log.publish(rows, after, self.program.fingerprint, self.cluster.batch)

    def _answers(self, messages: Sequence[SiteMessage]) -> list[Row]:
        if self._tasks.values is not None:
            return value_rows(self._query, UnpackValues(self._tasks.values.plan.columns)(_blobs(messages)))
        found = self._combinations(messages)
        if self._query.aggregate is not None:
            return group_rows(self._query, found)
        tenure = self._tasks.tenure
        rows = select_rows(self._query, found)
        return [each.row for each in rows if tenure.since_us <= each.t < tenure.until_us]

    def _combinations(self, messages: Sequence[SiteMessage]) -> list[Combination]:
        return combinations(self._query, list(self._tasks.unpack(_blobs(messages))))

    def _metrics(self, messages: Sequence[SiteMessage]) -> Mapping[str, int]:
        texts = [message.text for message in messages if isinstance(message, LevelMetrics)]
        found = self._tasks.metrics.combined(texts)
        self.state_rows = found.get("state_rows", self.state_rows)
        return found


def _blobs(messages: Sequence[SiteMessage]) -> Iterator[pa.RecordBatch]:
    blobs = [message.chunk.blob for message in messages if isinstance(message, Answers)]
    yield pa.RecordBatch.from_pydict({CHUNK: pa.array(blobs, pa.binary())})
