"""The Flink SQL of a job: tables on Parquet files, and the join by intervals of event time or without.

An interval join takes exactly one pair of time attributes, so the window against every stream but the anchor
is a condition on plain microseconds (`ts`), which Flink checks on each pair it finds.
"""

from __future__ import annotations

from benchmarks.peers.job import Job, Source, Step


def create_source(job: Job, source: Source, folder: str) -> str:
    """A stream with a watermark: its rows are in order, so the watermark is the event time itself."""
    keys = ", ".join(f"{key} BIGINT" for key in source.keys)
    return (
        f"CREATE TABLE {source.name} ({keys}, size BIGINT, ts BIGINT, "
        "rowtime AS TO_TIMESTAMP_LTZ(ts / 1000, 3), WATERMARK FOR rowtime AS rowtime) "
        "WITH ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = 'file://{job.folder}/{folder}/{source.name}')"
    )


def create_answers(job: Job) -> str:
    """The sink: a file for each parallel task, committed at the end of the input."""
    sizes = ", ".join(f"size_{source.alias} BIGINT" for source in job.sources)
    return (
        f"CREATE TABLE answers ({sizes}, answer_us BIGINT) "
        f"WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = 'file://{job.out}')"
    )


def interval_joins(job: Job) -> str:
    """Nested interval joins: Flink forgets a row once the watermark is past all rows it could meet."""
    return _join(job, [_interval(job, step) for step in job.steps])


def regular_join(job: Job) -> str:
    """The same join without time attributes, which is what Flink's MultiJoin takes; it forgets nothing."""
    return _join(job, [_window(job, step, step.anchor) for step in job.steps])


def _join(job: Job, near_anchor: list[str]) -> str:
    joins = [f"{job.sources[0].name} AS {job.sources[0].alias}"]
    for step, near in zip(job.steps, near_anchor, strict=True):
        alias = step.source.alias
        conditions = [f"{left}.{column} = {alias}.{own}" for (left, column), own in step.equalities]
        conditions += [near, *(_window(job, step, other) for other in step.others)]
        joins.append(f"JOIN {step.source.name} AS {alias} ON {' AND '.join(conditions)}")
    sizes = ", ".join(f"{source.alias}.size AS size_{source.alias}" for source in job.sources)
    latest = ", ".join(f"{source.alias}.ts" for source in job.sources)
    return f"SELECT {sizes}, GREATEST({latest}) AS answer_us FROM {' '.join(joins)}"


def _interval(job: Job, step: Step) -> str:
    span = f"INTERVAL '{job.window_us / 1_000_000:g}' SECOND"
    anchor, own = f"{step.anchor}.rowtime", f"{step.source.alias}.rowtime"
    return f"{own} BETWEEN {anchor} - {span} AND {anchor} + {span}"


def _window(job: Job, step: Step, other: str) -> str:
    span, own = job.window_us, f"{step.source.alias}.ts"
    return f"{own} BETWEEN {other}.ts - {span} AND {other}.ts + {span}"
