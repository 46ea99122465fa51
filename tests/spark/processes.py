"""The processes behind a Spark session, found through `ps`, for tests that kill some of them."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Process:
    """A process, as `ps` shows it."""

    pid: int
    parent: int
    command: str


def descendants(root: int) -> list[Process]:
    """Every living process below `root`, parents before children."""
    lines = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=", "-o", "ppid=", "-o", "args="],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    known = [Process(int(pid), int(parent), command) for pid, parent, command in map(_fields, lines)]
    found: list[Process] = []
    parents = [root]
    for parent in parents:
        children = [process for process in known if process.parent == parent]
        found += children
        parents += [child.pid for child in children]
    return found


def _fields(line: str) -> tuple[str, str, str]:
    pid, parent, *command = line.split(maxsplit=2)
    return pid, parent, command[0] if command else ""


def python_workers(root: int) -> list[int]:
    """The Python workers below `root`: what Spark's daemons have forked, not the daemons themselves."""
    below = descendants(root)
    daemons = {process.pid for process in below if "daemon pyspark." in process.command}
    return [process.pid for process in below if process.pid in daemons and process.parent in daemons]


def jvm(root: int) -> int | None:
    """The JVM below `root`, if it has been started."""
    found = [process.pid for process in descendants(root) if "org.apache.spark.deploy" in process.command]
    return found[0] if found else None


def session_jvm(spark: SparkSession) -> int:
    """The JVM of a session of this very process."""
    gateway: Any = spark.sparkContext._gateway
    return int(gateway.proc.pid)


def kill(pid: int) -> bool:
    """Kills a process without a word; False if it was gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
