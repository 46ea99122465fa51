"""The plan that runs: the advised one, or the one asked for by name."""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.advice import SiteAdvice, SiteOption, advise_sites
from watersmeet.plan.sites.placement import place
from watersmeet.plan.sites.semijoin.multiway.semijoin_program import semijoin_programs
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.sites.site_dataflow import why_not_across_sites
from watersmeet.plan.sites.site_program import site_programs
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query
from watersmeet.spark.sites.plan_tasks import Program


def choose_plan(
    query: Query, statistics: Statistics | None, wanted: str | None = None, *, command: str
) -> SiteOption:
    """The option to run; `wanted` is its name, as `explain --sites` lists it, or the beginning of one.

    `command` is what measures statistics, for whoever has none.
    """
    reason = why_not_across_sites(query)
    if reason is not None:
        raise ConfigurationError(f"the query does not run across sites: {reason}. Run it without --site")
    advice = advise_sites(query, statistics or Statistics(), statistics_command=command)
    return advice.chosen if wanted is None else _named(advice, wanted)


def programs_by(query: Query, option: SiteOption) -> Mapping[str, Program]:
    """Every site's part of an option."""
    if isinstance(option.plan, SemijoinPlan):
        assert option.model is not None
        return semijoin_programs(query, option.plan, option.model)
    return site_programs(query, place(query, option.plan))


def _named(advice: SiteAdvice, wanted: str) -> SiteOption:
    found = [option for option in advice.options if option.name.lower() == wanted.lower()]
    found = found or [option for option in advice.options if option.name.lower().startswith(wanted.lower())]
    if found:
        return found[0]
    names = "\n".join(f"  {option.name}" for option in advice.options)
    raise ConfigurationError(f"--plan {wanted}: there is no such plan. Those that there are:\n{names}")
