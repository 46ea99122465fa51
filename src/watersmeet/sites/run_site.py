"""One site's part of every query of a pipeline file, planned and started.

CHECKPOINT/sites/SITE/QUERY      the state of one site's part
CHECKPOINT/links/QUERY/A-to-B    links that the file does not declare
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.placement import place
from watersmeet.plan.sites.site_program import SiteProgram, site_programs
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Link, Pipeline, Query
from watersmeet.session import Session
from watersmeet.sites.choose_plan import choose_plan, plan_of
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
from watersmeet.spark.session.connectors import resolve
from watersmeet.spark.session.environment import PARTITIONS
from watersmeet.spark.session.kafka_options import DEAD_LETTERS
from watersmeet.spark.sites.link_folder import LinkFolder
from watersmeet.spark.sites.tasks import plan_site_tasks
from watersmeet.spark.sources.read_sources import read_sources
from watersmeet.sql import parse_statements

Way = tuple[str, str]

ALL_CORES = "local[*]"  # the master where none is named


@dataclass(frozen=True, kw_only=True)
class SiteRequest:
    """Which part of a file to run, and how; `plan` names the plan, for those who do not want the cheapest."""

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
        run = PipelineRun(
            jobs=tuple(job for job in jobs if not job.has_ended),
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
    if options.routing is not None:
        raise ConfigurationError("--routing is for queries at one place: --plan names a plan across sites")


def programs_of(
    query: Query, statistics: Statistics | None, plan: str | None, file: Path
) -> dict[str, SiteProgram]:
    """Every site's part of a query."""
    option = choose_plan(query, statistics, plan, command=f"watersmeet analyze {file}")
    return site_programs(query, place(query, plan_of(option)))


def link_folder(links: Iterable[Link], root: str, name: str, way: Way, base: Path) -> str:
    """Where a query's link between two sites is: as declared, or below the checkpoint."""
    for link in links:
        if (link.source, link.target) == way:
            options = resolve(link.connector, base, f"the link from {way[0]} to {way[1]}")
            return f"{options['path']}/{name.lower()}"
    return f"{root}/links/{name.lower()}/{way[0]}-to-{way[1]}"


def _jobs(
    session: Session,
    request: SiteRequest,
    options: RunOptions,
    pipeline: Pipeline,
    queries: Mapping[str, Query],
) -> Iterable[SiteJob]:
    statistics = request.statistics or statistics_beside(request.file)
    parts: dict[str, SiteProgram] = {}
    known: set[str] = set()
    for name, query in queries.items():
        programs = programs_of(query, statistics, request.plan, request.file)
        known |= programs.keys()
        found = next((own for site, own in programs.items() if site.lower() == request.site.lower()), None)
        if found is not None:
            parts[name] = found
    if not parts:
        raise ConfigurationError(
            f"--site {request.site}: no part of a query runs there. The sites are {', '.join(sorted(known))}"
        )
    for name, program in parts.items():
        yield _job(session, request, options, pipeline, name, queries[name], program)


def _job(
    session: Session,
    request: SiteRequest,
    options: RunOptions,
    pipeline: Pipeline,
    name: str,
    query: Query,
    program: SiteProgram,
) -> SiteJob:
    spark, base, root = session.spark, request.file.parent, request.root
    checkpoint = SiteCheckpoint(spark, f"{root}/sites/{program.site.lower()}/{name.lower()}")
    partitions = checkpoint.begin(program.fingerprint, int(spark.conf.get(PARTITIONS) or 1))
    has_ended = checkpoint.has_ended()
    if has_ended and not options.flush:
        raise ConfigurationError(
            f"the input of {checkpoint.folder} was ended by --flush: what comes now would be after the end "
            "of time. Start all sites anew with another checkpoint"
        )
    own = [stream for stream in query.streams if _arrives(query, program, stream.name)]
    for stream in own:
        if stream.source is not None and stream.source.option(DEAD_LETTERS) is not None:
            raise ConfigurationError(
                f"stream {stream.name} has {DEAD_LETTERS}, not kept across sites yet: leave them out"
            )
    sources = read_sources(spark, own, base)
    types = declared_types(query.streams)
    tasks = plan_site_tasks(query, program, types, partitions, session_tuning(spark))

    def folder(source: str, target: str) -> LinkFolder:
        return LinkFolder(
            spark, source, target, link_folder(pipeline.links, root, name, (source, target), base)
        )

    return SiteJob(
        spark=spark,
        name=f"{name} at {program.site}",
        tasks=tasks,
        sink=pipeline.sink(query.sink) if query.sink else None,
        incoming={source: folder(source, program.site) for source in program.sources},
        outgoing={target: folder(program.site, target) for target in program.targets},
        checkpoint=checkpoint,
        base=base,
        options=options,
        has_ended=has_ended,
        sources=sources,
    )


def _arrives(query: Query, program: SiteProgram, stream: str) -> bool:
    return any(query.input(alias).stream.name == stream for alias in program.aliases)
