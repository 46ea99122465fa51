"""How queries are run in process, and the dataflows that follow from it: the tasks that Spark is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from watersmeet.kernel import StateLimit
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query, Stream
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.compile.plan_tasks import plan_tasks
from watersmeet.spark.compile.tasks import TaskOptions
from watersmeet.spark.exchange.hot_keys import DEFAULT_MIN_ROWS, HotKeySettings
from watersmeet.spark.multiquery.answers import AnswerDecoder, declared_types
from watersmeet.spark.multiquery.compile import dataflow_fingerprint
from watersmeet.spark.multiquery.levels import dataflow_inputs, plan_levels
from watersmeet.spark.multiquery.ship import ship_inline
from watersmeet.spark.tuning import DEFAULT, Tuning
from watersmeet.testing.dataflow import QueriesDataflow, QueryDataflow
from watersmeet.testing.sources import may_be_files


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a query is run in process."""

    partitions: int = 3  # shuffle partitions: buckets at the most
    workers: int = 2
    routing: str | None = "shares"  # or pipeline, rewrite; None: what the planner chooses
    direct_files: bool = False  # tuples come as Parquet files, which the engine reads itself where it can
    hot_values: bool = False  # whether frequent values are spread over buckets
    hot_min_rows: int = DEFAULT_MIN_ROWS  # tuples to be seen before any value is taken for hot
    may_heat: bool = True  # False lets hot values cool, and no more heat
    state_limit: StateLimit | None = None
    statistics: Statistics | None = None
    map_tasks: int = 2  # that read each stream
    seed: int = 0  # of the order of rows in the shuffle, and of how tasks fail
    tuning: Tuning = DEFAULT  # the sizes by which the engine works


def query_dataflow(
    plan: PhysicalPlan, setup: Setup, routing: Path, starts: tuple[int, ...] = ()
) -> QueryDataflow:
    """The tasks of a query by itself; tables of hot values go to the folder `routing`."""
    streams = plan.query.streams
    hot = HotKeySettings(str(routing), setup.may_heat, setup.hot_min_rows)
    options = TaskOptions(
        types=declared_types(plan.query.read),
        direct=direct_streams(streams) if setup.direct_files else {},
        limit=setup.state_limit,
        hot=hot if setup.hot_values else None,
        parallelism=setup.workers,
        starts=starts,
        tuning=setup.tuning,
    )
    return QueryDataflow(plan_tasks(plan, options))


def queries_dataflow(
    dataflow: SharedDataflow,
    queries: Mapping[int, Query],
    streams: Sequence[Stream],
    setup: Setup,
    starts: tuple[int, ...] = (),
) -> QueriesDataflow:
    """The tasks of many queries, by number, in one dataflow."""
    ship = ship_inline(dataflow)
    tasks = plan_levels(
        dataflow,
        ship,
        dataflow_inputs(dataflow, streams),
        partitions=setup.partitions,
        fingerprint=dataflow_fingerprint(dataflow, streams, setup.partitions),
        direct=direct_streams(streams) if setup.direct_files else {},
        starts=starts,
        limit=setup.state_limit,
        parallelism=setup.workers,
        tuning=setup.tuning,
    )
    return QueriesDataflow(tasks, AnswerDecoder(ship, queries, declared_types(streams)))


def direct_streams(streams: Sequence[Stream]) -> dict[str, str | None]:
    """The streams whose Parquet files the engine would read itself; folders hold no column of theirs."""
    return {stream.name: None for stream in streams if may_be_files(stream)}
