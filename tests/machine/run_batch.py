"""One try of a micro-batch: its tasks, its sinks, its commit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tests.machine.attempt import Job
from tests.machine.schedule import Schedule
from tests.machine.sinks import Answer, Parts
from tests.machine.world import World
from watersmeet.oracle.oracle import Row
from watersmeet.query.values import canonical
from watersmeet.spark.jobs.checkpoint import CONTROL
from watersmeet.spark.multiquery.levels import LevelTasks
from watersmeet.spark.sinks.answer_ids import Numbers, Origin, id_prefix, name_answers
from watersmeet.testing.cluster import QUERY_ID
from watersmeet.testing.dataflow import Output, QueriesDataflow, QueryDataflow
from watersmeet.testing.setup import Setup


@dataclass(frozen=True)
class Settings:
    """What a driver is started with."""

    setup: Setup
    files_per_batch: int


def next_batch(
    world: World,
    settings: Settings,
    control_files: Callable[[], Sequence[str]] = tuple,
    *,
    waits: bool = True,
) -> bool:
    """Makes sure that the newest offsets are those of a batch to run; False if there is none.

    A driver that `waits` does so until files appear.
    """
    log = world.log
    if log.newest > log.committed:
        world.schedule.count("redo", f"batch {log.newest} is done again")
        return True
    while not log.has_more:
        world.let_files_appear()
        for stream in world.streams:
            log.take_files(stream.name, world.listing(stream.name), settings.files_per_batch)
        log.take_files(CONTROL, control_files(), len(control_files()))
        if not log.has_more and not (waits and world.to_come):
            return False
    log.write_offsets(log.newest + 1)
    return True


def run_batch(
    world: World,
    dataflow: QueryDataflow | QueriesDataflow,
    settings: Settings,
    run: int,
    queries: Mapping[str, str],
    most_sinks: int | None = None,
) -> None:
    """Runs the batch of the newest offsets; `queries` take part: what sinks call them, by name.

    With `most_sinks` it is cut off when so many sinks are filled.
    """
    log, batch, setup = world.log, world.log.newest, settings.setup
    world.cluster.begin(Job(run, batch), log.commits.get(batch - 1, {}))
    taken = log.files_of(batch)
    named = [
        f"{len(names)} rows" if source == CONTROL else ", ".join(names) for source, names in taken.items()
    ]
    world.schedule.note(f"batch {batch}, run {run}: {'; '.join(filter(None, named))}")
    arrived = world.arrived(batch, direct_files=setup.direct_files, map_tasks=setup.map_tasks)
    output = dataflow.run(world.cluster, arrived, is_end=bool(taken.get(CONTROL)))
    answers = _named(batch, output, queries, labels_of(dataflow))
    parts = _cut(world.schedule, answers)
    for sink in world.sinks[:most_sinks]:
        sink.write(run, batch, frozenset(queries.values()), parts)
    if most_sinks is None:
        log.commit(batch, world.cluster.reported)


def labels_of(dataflow: QueryDataflow | QueriesDataflow) -> tuple[int, ...]:
    """The labels of the last stage's buckets, in the order of the partitions that they fall into."""
    tasks = dataflow.tasks
    if isinstance(tasks, LevelTasks):
        return tasks.labels
    if tasks.distinct is not None:
        return tasks.distinct.stage.processor.plan.labels
    if tasks.query.aggregate is not None:
        return (0,)
    return (
        tasks.join.labels
        if isinstance(tasks.join, LevelTasks)
        else tasks.join.stages[-1].processor.plan.labels
    )


def _named(batch: int, output: Output, queries: Mapping[str, str], labels: Sequence[int]) -> list[Answer]:
    """The answers with the ids that the product gives them, bucket by bucket.

    Those of a shared dataflow are a union, in which each query has a partition for every bucket: their
    numbers depend on the queries that are there.
    """
    found = []
    is_shared = list(queries) != [""]
    for position, (name, query) in enumerate(sorted(queries.items())):
        for label, rows in output.by_bucket.get(name, {}).items():
            partition = position * len(labels) + labels.index(label)
            prefix = id_prefix(Origin(QUERY_ID, batch, len(labels) if is_shared else None), partition)
            hashes = np.array([_hash((name, *row)) for row in rows], np.int64)
            ids = name_answers(prefix, hashes, Numbers().take(hashes)).to_pylist()
            found += [Answer(id_, query, row) for id_, row in zip(ids, rows, strict=True)]
    return found


def _hash(row: Row) -> int:
    digest = hashlib.blake2b(repr(canonical(row)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _cut(schedule: Schedule, answers: list[Answer]) -> Parts:
    """Answers as the tasks of the last stage have them: some here, some there, in no order."""
    schedule.random.shuffle(answers)
    tasks = schedule.choose([1, 1, 2, 3])
    return [answers[number::tasks] for number in range(tasks)]
