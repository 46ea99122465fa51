"""Runs a pipeline file as `tests.spark.run_pipeline` does, and is killed before one step of its file sink.

python -m tests.spark.sinks.run_and_die STEP REQUEST    # the steps that change the disk count, from 0
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from tests.spark.run_pipeline import Request, main
from watersmeet.spark.storage.tree import LocalTree


def die_before(step: int) -> None:
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

    for name in ("create", "move", "remove"):
        setattr(LocalTree, name, counted(getattr(LocalTree, name)))


if __name__ == "__main__":
    die_before(int(sys.argv[1]))
    main(Request(**json.loads(sys.argv[2])))
