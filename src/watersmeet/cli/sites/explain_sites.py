"""`watersmeet explain --sites`: advice for streams at different sites, tried out on sampled tuples."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.cli.pipeline_files import sources_of
from watersmeet.cli.spark_session import spark_session
from watersmeet.cli.terminal.messages import waiting
from watersmeet.cli.terminal.spark_log import temporary_log
from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.plan.explain import SiteExplanation, explain_sites
from watersmeet.plan.sites.advice import SiteAdvice, SiteOption
from watersmeet.plan.sites.semijoin.model import DEFAULT_INTERVAL_S
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query, parse_duration
from watersmeet.sites.measured import MeasuredRun, measured_run
from watersmeet.spark.session.connectors import local_files
from watersmeet.spark.session.failures import first_line
from watersmeet.spark.session.packages import add_packages
from watersmeet.spark.sources.open_stream import read_batch

if TYPE_CHECKING:
    from watersmeet.lab.wan.advice import SiteSample, SiteSimulation


@dataclass(frozen=True)
class AdviceReport:
    """An advice, and what the lab says of it."""

    advice: SiteExplanation
    simulation: SiteSimulation | None = None
    measured: MeasuredRun | None = None

    def pretty(self) -> str:
        parts = (self.advice, self.simulation, self.measured)
        return "\n\n".join(part.pretty() for part in parts if part is not None)

    def to_json(self) -> dict[str, Any]:
        simulated = {"simulation": self.simulation.to_json()} if self.simulation else {}
        measured = {"measured": self.measured.to_json()} if self.measured else {}
        return {**self.advice.to_json(), **simulated, **measured}

    def svg(self) -> str:
        return self.advice.svg()


@dataclass(frozen=True)
class Trial:
    """How advice is made, and tried out if at all: as the command line says it."""

    simulate: str | None
    interval: str | None
    master: str
    sample_rows: int
    seed: int
    measured: str | None = None  # the checkpoint of a run to show beside it


def advise(
    file: Path, queries: Mapping[str, Query], statistics: Statistics, trial: Trial
) -> dict[str, AdviceReport]:
    """A report on each query of a file, by its name."""
    seconds, interval_s = None, DEFAULT_INTERVAL_S
    if trial.simulate is not None:
        seconds = _seconds("--simulate", trial.simulate, "a simulation takes some time, such as 60s")
    if trial.interval is not None:
        interval_s = _seconds("--interval", trial.interval, "an interval takes some time, such as 1s")
    command = f"watersmeet analyze {file}"
    reports = {}
    for name, query in queries.items():
        advice = explain_sites(query, statistics, interval_s=interval_s, statistics_command=command)
        run = None if trial.measured is None else measured_run(advice.advice, name, trial.measured)
        also = None if run is None else run.option
        simulation = _simulate(file, advice.advice, statistics, seconds, trial, also) if seconds else None
        if run is not None and simulation is not None:
            run = replace(run, simulated=_per_second(simulation, run.option))
        reports[name] = AdviceReport(advice, simulation, run)
    return reports


def _per_second(simulation: SiteSimulation, option: SiteOption) -> dict[tuple[str, str], float]:
    """What crosses each link in a second, as simulated."""
    found = next(one for one in simulation.options if one.option is option)
    return {way: crossed / found.seconds for way, crossed in found.crossed.items()}


def _seconds(option: str, text: str, nothing: str) -> float:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}") from None
    if duration <= 0:
        raise ConfigurationError(f"{option}: {nothing}")
    return duration / 1e6


def _simulate(
    file: Path,
    advice: SiteAdvice,
    statistics: Statistics,
    seconds: float,
    trial: Trial,
    also: SiteOption | None,
) -> SiteSimulation:
    from watersmeet.lab.wan.advice import draw_sample, sample_seconds, simulate_advice

    taken = _take(file, advice.query, trial.master, trial.sample_rows)
    if isinstance(taken, str):
        wanted = sample_seconds(advice.query, statistics, seconds)
        taken = draw_sample(advice.query, statistics, wanted, seed=trial.seed, reason=taken)
    with waiting("simulating"):
        return simulate_advice(advice, statistics, taken, seconds, also)


def _take(file: Path, query: Query, master: str, rows: int) -> SiteSample | str:
    """The first tuples of the sources; where they cannot be had, the reason."""
    from watersmeet.lab.wan.advice import taken_sample

    for stream in query.streams:
        if stream.source is None:
            return f"stream {stream.name} has no source"
        path = local_files(stream.source, file.parent)
        if path is not None and not path.exists() and not glob.glob(str(path)):
            return f"the source of {stream.name} has no data: there is no {stream.source.option('path')}"
    from watersmeet.spark.analyze.sample import sample_inputs

    try:
        conf = add_packages({}, sources_of(file))
        with waiting("sampling"), spark_session(master, conf, temporary_log()) as session:
            inputs = sample_inputs(query, lambda s: read_batch(session.spark, s, file.parent), rows)
    except WatersmeetError as error:
        return f"the sources cannot be read: {first_line(str(error))}"
    sample = taken_sample(inputs)
    if sample.end_us <= sample.start_us:
        return "the sources hold no time in which all streams have tuples"
    return sample
