"""Runs a pipeline file as `tests.spark.run_pipeline` does, and is killed before one step of its sink.

python -m tests.spark.sinks.run_and_die KIND STEP REQUEST    # steps count from 0

The steps of a sink of `files` are those that change the disk, those of `postgres` are statements.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from tests.spark.run_pipeline import Request, main
from watersmeet.spark.sinks.postgres_database import Database, Transaction
from watersmeet.spark.storage.tree import LocalTree

STEPS: dict[str, list[tuple[type, str]]] = {
    "files": [(LocalTree, "create"), (LocalTree, "move"), (LocalTree, "remove")],
    "postgres": [(Transaction, "run"), (Transaction, "ask"), (Database, "fill")],
}


def die_before(kind: str, step: int) -> None:
    """Makes this process kill itself where the sink would take a step."""
    taken = 0

    def counted(act: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any) -> Any:
            nonlocal taken
            if taken == step:
                os.kill(os.getpid(), signal.SIGKILL)
            taken += 1
            return act(*arguments)

        return counting

    for owner, name in STEPS[kind]:
        setattr(owner, name, counted(getattr(owner, name)))


if __name__ == "__main__":
    die_before(sys.argv[1], int(sys.argv[2]))
    main(Request(**json.loads(sys.argv[3])))
