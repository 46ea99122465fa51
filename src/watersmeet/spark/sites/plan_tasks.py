"""The tasks of one site, whatever its plan is."""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.errors import QueryError
from watersmeet.plan.sites.change_over import EVER, Tenure
from watersmeet.plan.sites.semijoin.multiway.semijoin_program import SemijoinProgram
from watersmeet.plan.sites.site_dataflow import why_not_across_sites
from watersmeet.plan.sites.site_program import SiteProgram
from watersmeet.query import Query
from watersmeet.spark.multiquery.answers import Types
from watersmeet.spark.sites.semijoin.tasks import plan_semijoin_tasks
from watersmeet.spark.sites.tasks import NO_TOPICS, SiteTasks, Topic, plan_site_tasks
from watersmeet.spark.tuning import DEFAULT, Tuning

Program = SiteProgram | SemijoinProgram


def plan_tasks(
    query: Query,
    program: Program,
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
    reason = why_not_across_sites(query)
    if reason is not None:
        raise QueryError(f"the query does not run across sites: {reason}")
    if isinstance(program, SemijoinProgram):
        return plan_semijoin_tasks(query, program, types, partitions, tuning, topics, tenure)
    return plan_site_tasks(query, program, types, partitions, tuning, topics, tenure)
