"""The plans that the queries of a file run by across sites, by what all sites agree on, and their bills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from watersmeet.cli.pipeline_files import read_queries, statistics_for
from watersmeet.cli.run_request import Request
from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.advice import SiteOption
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query
from watersmeet.sites.bill import Bill, draw_up
from watersmeet.sites.choose_plan import choose_plan, programs_by
from watersmeet.sites.plan_changes import PLANS, Generation, PlanChanges, changes_below
from watersmeet.sites.run_site import ALL_CORES
from watersmeet.spark.jobs.pipeline_file import absolute_checkpoint
from watersmeet.spark.sites.plan_tasks import Program
from watersmeet.spark.storage.paths import local_path


@dataclass(frozen=True)
class RunningPlan:
    """One of the plans of a query."""

    name: str  # of the query
    query: Query
    generation: Generation
    option: SiteOption
    programs: Mapping[str, Program]
    statistics: Statistics

    @property
    def part(self) -> str:
        """What its checkpoints and links go by."""
        return self.generation.part(self.name)

    @property
    def label(self) -> str:
        """What its parts at sites go by, before the site."""
        number = self.generation.number
        return f"{self.name}@{number}" if number else self.name


class Plans:
    """All plans of a file's queries, those that others have taken over from too."""

    def __init__(self, request: Request) -> None:
        self.root = absolute_checkpoint(request.checkpoint_root)
        statistics = statistics_for(request.file, request.stats)
        command = f"watersmeet analyze {request.file}"
        self.changes = changes_below(self.root)
        self.plans: list[RunningPlan] = []
        for name, query in read_queries(request.file, ALL_CORES).items():
            for each in self.changes.generations(name):
                known = each.statistics or statistics
                option = choose_plan(query, known, each.plan or request.plan, command=command)
                programs = programs_by(query, option)
                found = RunningPlan(name, query, each, option, programs, known or Statistics())
                self.plans.append(found)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites of all queries."""
        return tuple(dict.fromkeys(site for plan in self.plans for site in plan.programs))

    @property
    def newest(self) -> Iterable[RunningPlan]:
        """Of each query the plan that no other takes over from."""
        return (plan for plan in self.plans if not plan.generation.tenure.is_replaced)

    @property
    def predicted(self) -> dict[tuple[str, str, str], float]:
        """bytes/s over each link, by what a plan's parts go by and the two sites."""
        return {
            (plan.label, *way): bytes_per_s
            for plan in self.plans
            for way, bytes_per_s in plan.option.by_link().items()
        }

    def bill(self, plan: RunningPlan) -> Bill:
        """What has crossed the links of a plan so far."""
        return draw_up(plan.part, plan.option, plan.programs.values(), self.root)

    def draw_up(self) -> list[Bill]:
        """The bill of each plan."""
        return [self.bill(plan) for plan in self.plans]

    def change(self, changes: PlanChanges) -> None:
        """Writes down what all sites read when they start again; they must be stopped."""
        file = self._file
        assert file is not None
        draft = file.with_name(f".{PLANS}.tmp")
        try:
            draft.write_text(changes.to_text(), encoding="utf-8")
            draft.replace(file)
        except OSError as error:
            raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from None

    @property
    def _file(self) -> Path | None:
        """None if the checkpoint is on no disk of this machine."""
        root = local_path(self.root)
        return None if root is None else root / PLANS
