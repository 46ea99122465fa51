"""The plan that runs: the cheapest of the advice that does run, or the one asked for by name."""

from __future__ import annotations

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.advice import SiteAdvice, SiteOption, advise_sites
from watersmeet.plan.sites.plan_tree import PlanNode
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.sites.site_dataflow import why_not_across_sites
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query


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
    if wanted is None:
        return next(option for option in advice.options if runs(option))
    return _named(advice, wanted)


def runs(option: SiteOption) -> bool:
    """Whether an option can be run, and not only priced and simulated."""
    return not isinstance(option.plan, SemijoinPlan)


def plan_of(option: SiteOption) -> PlanNode:
    """The plan of an option that runs."""
    assert not isinstance(option.plan, SemijoinPlan)
    return option.plan


def _named(advice: SiteAdvice, wanted: str) -> SiteOption:
    found = [option for option in advice.options if option.name.lower() == wanted.lower()]
    found = found or [option for option in advice.options if option.name.lower().startswith(wanted.lower())]
    able = [option for option in found if runs(option)]
    if able:
        return able[0]
    if found:
        raise ConfigurationError(
            f"--plan {wanted}: semijoin plans are priced and simulated, but they do not run yet. "
            f"The cheapest that runs is '{next(option.name for option in advice.options if runs(option))}'"
        )
    names = "\n".join(f"  {option.name}" for option in advice.options if runs(option))
    raise ConfigurationError(f"--plan {wanted}: there is no such plan. Those that run:\n{names}")
