"""Runs a pipeline file in a process of its own, which a test may kill: `python -m` with a JSON of options.

Prints `batch N` as each batch ends. What Watersmeet has to say of a failure goes to standard error, and the
code is 1.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from watersmeet.errors import WatersmeetError
from watersmeet.session import Session
from watersmeet.spark.jobs.job import Job, RunOptions
from watersmeet.spark.metrics.progress import Progress

SMALL = {"spark.driver.memory": "600m", "spark.sql.shuffle.partitions": "3"}


@dataclass(frozen=True)
class Request:
    """What to run, and how."""

    file: str
    checkpoint: str
    log: str
    master: str = "local[2]"
    available_now: bool = True
    flush: bool = True
    evolve: bool = False
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.spark.run_pipeline", json.dumps(asdict(self))]


def main(request: Request) -> None:
    session = Session(master=request.master, conf={**SMALL, **request.conf}, log=Path(request.log))
    print("started", flush=True)
    options = RunOptions(available_now=request.available_now, flush=request.flush, evolve=request.evolve)
    session.run(request.file, checkpoint=request.checkpoint, options=options, on_progress=_tell)
    session.spark.stop()


def _tell(job: Job, progress: Progress) -> None:
    print(f"batch {progress.batch_id}", flush=True)


if __name__ == "__main__":
    try:
        main(Request(**json.loads(sys.argv[1])))
    except WatersmeetError as error:
        sys.exit(str(error))
