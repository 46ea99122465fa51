"""One site's part of every query of a pipeline file, planned and started.

CHECKPOINT/sites/SITE/QUERY      the state of one site's part
CHECKPOINT/sites/SITE/dead-letters-SINK
CHECKPOINT/links/QUERY/A-to-B    links that the file does not declare
CHECKPOINT/plans.json            plans that have taken over, of which each has parts and links of its own
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.change_over import Tenure
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Pipeline, Query, Stream
from watersmeet.session import Session
from watersmeet.sites.choose_plan import choose_plan, programs_by
from watersmeet.sites.letters_of_site import letters_of_site
from watersmeet.sites.plan_changes import PLANS, Generation, plan_changes
from watersmeet.sites.site_links import SiteLinks
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.pipeline_file import (
    absolute_checkpoint,
    default_checkpoint,
    name_queries,
    read_source,
    statistics_beside,
)
from watersmeet.spark.jobs.pipeline_run import PipelineRun
from watersmeet.spark.jobs.run_lock import hold_checkpoint
from watersmeet.spark.jobs.sites.site_checkpoint import SiteCheckpoint
from watersmeet.spark.jobs.sites.site_job import SiteJob
from watersmeet.spark.multiquery.answers import declared_types
from watersmeet.spark.session.block_size import session_tuning
from watersmeet.spark.session.environment import PARTITIONS
from watersmeet.spark.sites.plan_tasks import Program, plan_tasks
from watersmeet.spark.sources.read_sources import read_sources
from watersmeet.spark.storage.folder import Folder
from watersmeet.sql import parse_statements

ALL_CORES = "local[*]"  # the master where none is named


@dataclass(frozen=True, kw_only=True)
class SiteRequest:
    """Which part of a file to run, and how; `plan` names a plan for those who want another than advised."""

    file: Path
    site: str
    checkpoint: str | None = None
    plan: str | None = None
    statistics: Statistics | None = None

    @property
    def root(self) -> str:
        return absolute_checkpoint(self.checkpoint or default_checkpoint(self.file))


def start_site(session: Session, request: SiteRequest, options: RunOptions) -> PipelineRun:
    """Starts one site's part of every query, resuming from its own part of the checkpoint."""
    check_site_options(options)
    folder = f"{request.root}/sites/{request.site.lower()}"
    lock = hold_checkpoint(session.spark, folder)
    try:
        pipeline = session.read(request.file)
        queries = name_queries(pipeline, read_source(request.file))
        jobs = list(_jobs(session, request, options, pipeline, queries))
        here = {stream.name for job in jobs for stream in _arriving(job.query, job.tasks.site.program)}
        run = PipelineRun(
            jobs=tuple(job for job in jobs if not job.has_ended),
            dead_letters=tuple(
                letters_of_site(session.spark, pipeline, here, folder, request.file.parent, options)
            ),
            ended=tuple(job.name for job in jobs if job.has_ended),
            lock=lock,
        )
        run.start()
    except BaseException:
        lock.release()
        raise
    return run


def master_of(file: Path, site: str, given: str) -> str:
    """The master that a site declares, unless another than Spark's usual one is `given`."""
    source = read_source(file)
    sites = parse_statements(source.text, source.file).sites
    declared = next((one.master for one in sites if one.name.lower() == site.lower()), None)
    return declared if declared is not None and given == ALL_CORES else given


def check_site_options(options: RunOptions) -> None:
    """Refuses what a site does not take for now."""
    if options.available_now and not options.flush:
        raise ConfigurationError(
            "--available-now across sites goes with --flush: a site that stops before the others have sent "
            "all they hold would leave answers out"
        )
    if options.limit is not None:
        raise ConfigurationError("--state-limit is for queries at one place: leave it out with --site")
    if options.evolve:
        raise ConfigurationError("--evolve is for queries at one place: leave it out with --site")
    if options.routing is not None:
        raise ConfigurationError("--routing is for queries at one place: --plan names a plan across sites")


def programs_of(
    query: Query, statistics: Statistics | None, plan: str | None, file: Path
) -> Mapping[str, Program]:
    """Every site's part of a query."""
    option = choose_plan(query, statistics, plan, command=f"watersmeet analyze {file}")
    return programs_by(query, option)


@dataclass(frozen=True)
class _Part:
    """One site's part of one of the plans of a query."""

    query_name: str
    query: Query
    generation: Generation
    program: Program

    @property
    def name(self) -> str:
        number = self.generation.number
        return f"{self.query_name}@{number}" if number else self.query_name


def _jobs(
    session: Session,
    request: SiteRequest,
    options: RunOptions,
    pipeline: Pipeline,
    queries: Mapping[str, Query],
) -> Iterable[SiteJob]:
    statistics = request.statistics or statistics_beside(request.file)
    place = f"{request.root}/{PLANS}"
    changes = plan_changes(Folder(session.spark, request.root).read(PLANS), place)
    parts: list[_Part] = []
    known: set[str] = set()
    for name, query in queries.items():
        for generation in changes.generations(name):
            programs = programs_of(
                query, generation.statistics or statistics, generation.plan or request.plan, request.file
            )
            known |= programs.keys()
            found = (own for site, own in programs.items() if site.lower() == request.site.lower())
            parts += [_Part(name, query, generation, own) for own in found]
    if not parts:
        raise ConfigurationError(
            f"--site {request.site}: no part of a query runs there. The sites are {', '.join(sorted(known))}"
        )
    for part in parts:
        job = _job(session, request, options, pipeline, part)
        if job is not None:
            yield job


def _job(
    session: Session, request: SiteRequest, options: RunOptions, pipeline: Pipeline, part: _Part
) -> SiteJob | None:
    """A part as a job; None if another plan has taken over from it."""
    spark, base, query, program = session.spark, request.file.parent, part.query, part.program
    label, tenure = part.generation.part(part.query_name), part.generation.tenure
    links = SiteLinks(links=pipeline.links, program=program, part=label, root=request.root, base=base)
    checkpoint = SiteCheckpoint(spark, f"{request.root}/sites/{program.site.lower()}/{label}")
    cores = int(spark.conf.get(PARTITIONS) or 1)
    partitions = checkpoint.begin(program.fingerprint, cores, links.topics)
    has_ended = checkpoint.has_ended()
    if has_ended and tenure.is_replaced:
        return None
    if has_ended and not options.flush:
        raise ConfigurationError(
            f"the input of {checkpoint.folder} was ended by --flush: what comes now would be after the end "
            "of time. Start all sites anew with another checkpoint"
        )
    own = [_from_start(stream, tenure) for stream in _arriving(query, program)]
    types, tuning = declared_types(query.streams), session_tuning(spark)
    return SiteJob(
        spark=spark,
        name=f"{part.name} at {program.site}",
        tasks=plan_tasks(query, program, types, partitions, tuning, links.incoming_topics, tenure),
        sink=pipeline.sink(query.sink) if query.sink else None,
        incoming=links.incoming(spark),
        outgoing=links.outgoing(spark, checkpoint.folder),
        checkpoint=checkpoint,
        base=base,
        options=options,
        has_ended=has_ended,
        sources=read_sources(spark, own, base),
    )


def _from_start(stream: Stream, tenure: Tenure) -> Stream:
    """A stream as a plan reads it that takes over: from its start, passing over what it does not need."""
    source = stream.source
    if tenure.is_first or source is None or source.format.lower() != "kafka":
        return stream
    kept = tuple(each for each in source.options if each[0].lower() != "startingoffsets")
    return replace(stream, source=replace(source, options=(*kept, ("startingOffsets", "earliest"))))


def _arriving(query: Query, program: Program) -> list[Stream]:
    """The streams of a query that arrive at a site."""
    names = {query.input(alias).stream.name for alias in program.aliases}
    return [stream for stream in query.streams if stream.name in names]
