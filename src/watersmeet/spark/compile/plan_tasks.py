"""A physical plan becomes a description of its tasks (`tasks.py`): a pure function, with no Spark at hand.

inputs -> exchange -> (numbering -> exchange) -> join -> residual, SELECT -> (distinct values)
inputs -> exchange -> level 1 -> exchange -> level 2 ... -> residual, SELECT      routed as a pipeline
inputs -> exchange -> part 1 -> exchange -> part 2 ... -> residual, SELECT        the same for a tree of joins
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql.types import BooleanType, DataType, LongType, StructField, StructType, TimestampType

from watersmeet.errors import ConfigurationError
from watersmeet.kernel import (
    ANSWER_END,
    ANSWER_TS,
    ENDED,
    TICK,
    BucketPlan,
    Grid,
    Shed,
    StateLimit,
    plan_bucket,
)
from watersmeet.kernel.outer.tree_layout import OuterLayout, delay_us
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.routing.routing import Native, Pipeline, Rewrite, Shares, TreePipeline
from watersmeet.plan.routing.tree_stages import StagedTree
from watersmeet.query import Query
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.compile.lay_out_tree import lay_out_stages, lay_out_tree
from watersmeet.spark.compile.plan_inputs import InputPlanner
from watersmeet.spark.compile.tasks import (
    DistinctTasks,
    JoinTasks,
    QueryTasks,
    StageTask,
    TaskOptions,
)
from watersmeet.spark.exchange.hot_keys import plan_hot_keys
from watersmeet.spark.exchange.labels import bucket_labels
from watersmeet.spark.exchange.messages import MESSAGES
from watersmeet.spark.exchange.unpack import Payload, UnpackAnswers, UnpackValues
from watersmeet.spark.grouping.group_samples import grouped_texts
from watersmeet.spark.multiquery.answers import Types
from watersmeet.spark.multiquery.levels import FeedInput, LevelTasks, plan_levels
from watersmeet.spark.stages.answers import AnswerBlobs, AnswerRows
from watersmeet.spark.stages.distinct import VALUES_SCHEMA, DistinctStage, PackValues
from watersmeet.spark.stages.join_metrics import join_metrics
from watersmeet.spark.stages.join_stage import JoinStage
from watersmeet.spark.stages.numbering_stage import NumberingStage
from watersmeet.spark.stages.part_stage import PartStage
from watersmeet.spark.stages.stage_plan import SentOn, StagePlan
from watersmeet.spark.worker.frugal import frugally


def plan_tasks(plan: PhysicalPlan, options: TaskOptions) -> QueryTasks:
    """The tasks of a query, unless Spark's own joins are to run it."""
    return _TaskPlanner(plan, options).tasks()


@dataclass(frozen=True)
class _TaskPlanner:
    plan: PhysicalPlan
    options: TaskOptions

    @property
    def query(self) -> Query:
        return self.plan.query

    def tasks(self) -> QueryTasks:
        query = self.query
        read = query.payload if query.tree is None else query.answer_columns
        payload = tuple((item.alias, read(item.alias)) for item in query.inputs)
        payload = tuple((alias, columns) for alias, columns in payload if columns)
        schema = answer_schema(query, payload, self.options.types)
        unpack = UnpackAnswers(
            payload, query.distinct, query.aggregate is not None, query.distinct and query.joins_delayed
        )
        return QueryTasks(
            query=query,
            join=self._route(schema),
            schema=schema,
            unpack=frugally(unpack, self.options.limit),
            residual=" AND ".join(f"({expr.sql})" for expr in query.residual) or None,
            select=tuple((output.expr.sql, output.name) for output in query.select),
            distinct=self._distinct() if self._has_values else None,
            grouped=grouped_texts(query),
        )

    def _route(self, schema: StructType) -> JoinTasks | LevelTasks:
        match self.plan.routing:
            case Shares(hypercube):
                return self._join(Grid(hypercube.shares), schema)
            case Pipeline(dataflow) | Rewrite(dataflow):
                return self._levels(dataflow)
            case TreePipeline(staged):
                return self._parts(staged, schema)
            case Native():
                raise ConfigurationError("Spark's own joins have no tasks of ours: choose another routing")

    def _join(self, grid: Grid, schema: StructType) -> JoinTasks:
        query, labels = self.query, bucket_labels(self.plan.partitions)
        _refuse_limit(query, self.options.limit)
        laid_out = lay_out_tree(query) if query.tree else None
        if laid_out is not None:
            _refuse_endless(query, laid_out.tree)
        tree = (laid_out.layout, laid_out.tree) if laid_out else None
        orders = {sequence.head: sequence.order for sequence in self.plan.probing}
        planned = plan_bucket(query, self._share(grid), self.options.tuning.kernel, tree)
        bucket = replace(planned, initial_order=orders)
        spread = None if tree else self.options.hot
        hot = plan_hot_keys(bucket.layout, grid, self.plan.first_fingerprint, spread)
        join = self._stage_plan("join", bucket, grid, labels[: grid.buckets])
        whole = Grid((1,) * len(grid.shares))  # one bucket: rows are numbered over a whole stream
        numbering = replace(
            self._stage_plan("numbering", bucket, whole, labels[:1]),
            cached_buckets=1 if self.options.limit else None,
        )
        first = numbering if query.numbers_rows else join
        planner = InputPlanner(
            query=query,
            layouts=bucket.layout.inputs,
            direct=self.options.direct,
            grid=first.grid,
            labels=first.labels,
            hot=hot,
            limit=self.options.limit,
            computed=laid_out.computed if laid_out else {},
            tuning=self.options.tuning,
        )
        rows = AnswerRows.of(schema)
        join = replace(
            join,
            late=planner.late,
            hot=hot,
            output=rows or AnswerBlobs(),
            files=planner.read_by_stage,
        )
        stages = [StageTask("join", JoinStage(join), join.output.schema)]
        if query.numbers_rows:
            stage = NumberingStage(numbering, join.grid, join.labels)
            stages.insert(0, StageTask("numbering", stage, MESSAGES.spark_schema))
        return JoinTasks(
            inputs=planner.tasks(),
            labels=first.labels,
            reports_time=planner.reports_time,
            stages=tuple(stages),
            metrics=join_metrics(bucket.layout, join.streams),
            rows=rows,
            partitions=self.plan.partitions,
        )

    def _parts(self, staged: StagedTree, schema: StructType) -> JoinTasks:
        """A tree of joins as a pipeline: each input is sent for the stage in which it is joined."""
        query, labels = self.plan.travelling, bucket_labels(self.plan.partitions)
        _refuse_limit(query, self.options.limit)
        laid_out = lay_out_stages(query, staged)
        _refuse_endless(query, laid_out.stages[-1])
        every, rows = range(len(staged.stages)), AnswerRows.of(schema)
        grids = [Grid(tuple(len(labels) if each == number else 1 for each in every)) for number in every]
        stage_of, stages = staged.stage_of, []
        for number, tree in enumerate(laid_out.stages):
            is_last = number == every[-1]
            bucket = plan_bucket(query, None, self.options.tuning.kernel, (laid_out.layout, tree))
            if not is_last:
                bucket = replace(bucket, delays_answers=False, emit_every_us=None)
            name = "join" if is_last else f"part {number + 1}"
            aliases = [item.alias for item in query.inputs]
            part = replace(
                self._stage_plan(name, bucket, grids[number], labels),
                inputs=frozenset(n for n, alias in enumerate(aliases) if stage_of[alias] == number),
                takes=frozenset(staged.stages[number].takes),
                output=rows or AnswerBlobs(),
            )
            if is_last:
                stages.append(StageTask(name, JoinStage(part), part.output.schema))
            else:
                to = laid_out.sent[number]
                sent = SentOn(number, to.column, to.keeps_null, len(labels))
                stages.append(StageTask(name, PartStage(part, sent), MESSAGES.spark_schema))
        planner = InputPlanner(
            query=query,
            layouts=laid_out.layout.inputs,
            direct=self.options.direct,
            grid=grids[0],
            labels=labels,
            grids={alias: grids[number] for alias, number in stage_of.items()},
            computed=laid_out.computed,
            tuning=self.options.tuning,
        )
        return JoinTasks(
            inputs=planner.tasks(),
            labels=labels,
            reports_time=planner.reports_time,
            stages=tuple(stages),
            metrics=join_metrics(laid_out.layout, query.progress_names),
            rows=rows,
            partitions=self.plan.partitions,
        )

    def _stage_plan(self, name: str, bucket: BucketPlan, grid: Grid, labels: tuple[int, ...]) -> StagePlan:
        streams = self.query.progress_names
        return StagePlan(
            name=name,
            bucket=bucket,
            streams=streams,
            grid=grid,
            labels=labels,
            fingerprint=self.plan.fingerprint,
            predecessor=self.plan.predecessor,
            cached_buckets=self._cached_buckets(grid),
            starts=self.options.starts,
            tuning=self.options.tuning,
        )

    def _cached_buckets(self, grid: Grid) -> int | None:
        """How many buckets a worker keeps under a limit: not those that others are at work on by now."""
        return -(-grid.buckets // max(1, self.options.parallelism)) if self.options.limit else None

    @property
    def _part(self) -> StateLimit | None:
        """What the join may take of the limit: all, or half where the values of DISTINCT get the other."""
        limit = self.options.limit
        if limit is None or not self._has_values or limit.shed is Shed.NONE:
            return limit
        return replace(limit, nbytes=limit.nbytes // 2)

    def _share(self, grid: Grid) -> StateLimit | None:
        """What one of these buckets may take."""
        return self._part.share(grid.buckets) if self._part else None

    @property
    def _has_values(self) -> bool:
        return self.query.distinct and self.query.aggregate is None

    def _levels(self, dataflow: SharedDataflow) -> LevelTasks:
        """A query as a pipeline: each input is packed once and sent to the level where it is joined."""
        slots = {relation.source: relation.slot for relation in dataflow.relations}
        inputs = []
        for reading in self.query.readings:
            item = self.query.inputs[reading.input]
            is_first = reading.number == reading.input
            feed = FeedInput(
                item.alias if is_first else f"{item.alias} {reading.number}",
                item.stream,
                tuple(feed for feed in dataflow.feeds if slots[feed.name] == item.alias),
                " AND ".join(f"({expr.sql})" for expr in item.filters) or None,
                reading.branch,
                item.alias,
            )
            inputs.append(feed)
        return plan_levels(
            dataflow,
            self.options.ship(dataflow),
            inputs,
            direct=self.options.direct,
            partitions=self.plan.partitions,
            fingerprint=self.plan.fingerprint,
            starts=self.options.starts,
            limit=self._part,
            parallelism=self.options.parallelism,
            tuning=self.options.tuning,
        )

    def _distinct(self) -> DistinctTasks:
        columns = tuple(output.name for output in self.query.select)
        labels, limit = bucket_labels(self.plan.partitions), self.options.limit
        grid = Grid((len(labels),))
        plan = self._stage_plan(
            "distinct", plan_bucket(self.query, self._share(grid), self.options.tuning.kernel), grid, labels
        )
        released = (*columns, ANSWER_TS) if self.options.keeps_time else columns
        processor = DistinctStage(replace(plan, streams=()), columns, released)
        stage = StageTask("distinct", processor, VALUES_SCHEMA)
        pack = frugally(PackValues(columns, labels), limit)
        return DistinctTasks(columns, released, pack, stage, frugally(UnpackValues(), limit))


def _refuse_endless(query: Query, tree: OuterLayout) -> None:
    """Refuses DISTINCT and aggregates where answers may come as late as they like."""
    if (query.distinct or query.aggregate) and delay_us(tree.root) is None:
        raise ConfigurationError(
            "DISTINCT and aggregates over outer, semi and anti joins need to know when a row without a match "
            "leaves at the latest: give every input that may be kept without one a RANGE or TUMBLE window"
        )


def _refuse_limit(query: Query, limit: StateLimit | None) -> None:
    """Refuses a limit where what is shed would end the tuples before it, or may be a match."""
    if query.tree is not None and limit is not None:
        raise ConfigurationError(
            "a limit of memory would lose rows that outer, semi and anti joins need to know what has no "
            "match: run the query without --state-limit, or with shorter windows"
        )
    for item in query.inputs:
        if limit is not None and item.window.partition:
            raise ConfigurationError(
                f"a limit of memory does not go with {item.pretty()}: a tuple that is shed would have ended "
                "others. Leave the limit out; what is kept are the last tuples of each value"
            )
        has_lifetimes = query.distinct or query.aggregate is not None
        if limit is not None and has_lifetimes and item.window.counts_rows:
            what = "DISTINCT" if query.distinct else "aggregates"
            raise ConfigurationError(
                f"a limit of memory does not go with {what} over {item.pretty()}: leave the limit out, "
                "or use a RANGE or TUMBLE window of time"
            )


def answer_schema(query: Query, payload: Payload, types: Types) -> StructType:
    """Complete combinations: a struct for each input, t, and what DISTINCT and aggregates need beside."""

    def struct(columns: dict[str, DataType]) -> StructType:
        return StructType([StructField(name, type_) for name, type_ in columns.items()])

    fields = []
    for alias, columns in payload:
        known = types[query.input(alias).stream.name]
        fields.append(StructField(alias, struct({name: known[name] for name in columns})))
    fields.append(StructField(ANSWER_TS, TimestampType()))
    if query.distinct:
        fields.append(StructField(ANSWER_END, LongType()))
        if query.joins_delayed:
            fields.append(StructField(ENDED, BooleanType()))
    if query.aggregate:
        fields.append(StructField(TICK, TimestampType()))
    return StructType(fields)
