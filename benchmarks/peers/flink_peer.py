"""Flink on one job, in its own environment: `python -m benchmarks.peers.flink_peer VARIANT JOB RESULT`.

Everything runs in one JVM (Flink's own mini cluster), in streaming mode on bounded input, with as many
parallel tasks as the job has cores. Objects are reused between operators, Flink's own setting for speed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.flink_sql import create_answers, create_source, interval_joins, regular_join
from benchmarks.peers.job import Job
from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

ROCKSDB = {"state.backend.type": "rocksdb", "taskmanager.memory.managed.size": "2g"}
MULTI_JOIN = {"table.optimizer.multi-join.enabled": "true"}


@dataclass(frozen=True)
class Variant:
    """A way to run the join, the operator that its plan must have, and where the rows are."""

    join: Callable[[Job], str]
    operator: str
    settings: Mapping[str, str] = field(default_factory=dict)
    folder: str = "whole"


VARIANTS = {
    "flink": Variant(interval_joins, "IntervalJoin"),
    "flink-rocksdb": Variant(interval_joins, "IntervalJoin", ROCKSDB),
    "flink-multijoin": Variant(regular_join, "MultiJoin", MULTI_JOIN),
    "flink-many-files": Variant(interval_joins, "IntervalJoin", folder="."),
}


def run(variant: Variant, job: Job) -> dict[str, object]:
    """Runs the job to its end; seconds are from handing over the query to its end."""
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    tables = TableEnvironment.create(settings.with_configuration(_configuration(variant, job)).build())
    for source in job.sources:
        tables.execute_sql(create_source(job, source, variant.folder))
    tables.execute_sql(create_answers(job))
    insert = f"INSERT INTO answers {variant.join(job)}"
    plan = tables.explain_sql(insert).split("== Optimized Execution Plan ==")[1]
    joins = [line.strip(" :+-") for line in plan.splitlines() if "Join(" in line]
    if not any(line.startswith(variant.operator) for line in joins):
        return {"refused": f"the plan has no {variant.operator} but {_operators(joins)}"}
    start = time.perf_counter()
    tables.execute_sql(insert).wait()
    return {"seconds": time.perf_counter() - start, "plan": _operators(joins)}


def _operators(joins: list[str]) -> str:
    return ", ".join(line.split("(")[0] for line in joins)


def _configuration(variant: Variant, job: Job) -> Configuration:
    configuration = Configuration()
    jars = ";".join(path.as_uri() for path in sorted((Path(sys.prefix) / "jars").glob("*.jar")))
    chosen = {
        "pipeline.jars": jars,
        "pipeline.classpaths": jars,
        "parallelism.default": str(job.cores),
        "pipeline.object-reuse": "true",
        "table.local-time-zone": "UTC",
        **variant.settings,
    }
    for name, value in chosen.items():
        configuration.set_string(name, value)
    return configuration


def main() -> None:
    variant, job, result = VARIANTS[sys.argv[1]], Path(sys.argv[2]), Path(sys.argv[3])
    result.write_text(json.dumps(run(variant, Job.from_json(job.read_text()))))


if __name__ == "__main__":
    main()
