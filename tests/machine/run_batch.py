"""One try of a micro-batch: its tasks, its sinks, its commit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tests.machine.attempt import Job
from tests.machine.schedule import Schedule
from tests.machine.sinks import Answer, Parts
from tests.machine.world import World
from watersmeet.oracle.oracle import Row
from watersmeet.query.values import canonical
from watersmeet.spark.jobs.checkpoint import CONTROL
from watersmeet.spark.sinks.answer_ids import Numbers, name_answers
from watersmeet.testing.cluster import QUERY_ID
from watersmeet.testing.dataflow import QueriesDataflow, QueryDataflow
from watersmeet.testing.setup import Setup


@dataclass(frozen=True)
class Settings:
    """What a driver is started with."""

    setup: Setup
    files_per_batch: int


def run_batch(
    world: World,
    dataflow: QueryDataflow | QueriesDataflow,
    settings: Settings,
    run: int,
    queries: frozenset[str],
) -> None:
    """Runs the batch of the newest offsets, which these queries take part in."""
    log, batch, setup = world.log, world.log.newest, settings.setup
    world.cluster.begin(Job(run, batch), log.commits.get(batch - 1, {}))
    taken = log.files_of(batch)
    world.schedule.note(f"batch {batch}, run {run}: {', '.join(sum(taken.values(), [])) or 'nothing'}")
    arrived = world.arrived(batch, direct_files=setup.direct_files, map_tasks=setup.map_tasks)
    output = dataflow.run(world.cluster, arrived, is_end=bool(taken.get(CONTROL)))
    parts = _cut(world.schedule, _named(batch, output.answers, queries))
    for sink in world.sinks:
        sink.write(run, batch, queries, parts)
    log.commit(batch, world.cluster.reported)


def _named(batch: int, answers: Mapping[str, Sequence[Row]], queries: frozenset[str]) -> list[Answer]:
    """The answers with their ids."""
    found = []
    for query in sorted(queries):
        rows = answers.get(query, ())
        hashes = np.array([_hash(row) for row in rows], np.int64)
        ids = name_answers(f"{QUERY_ID}-{query}-{batch}", hashes, Numbers().take(hashes)).to_pylist()
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
