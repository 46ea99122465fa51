"""Spark's classes as a JVM holds them in memory, kept in a file: each JVM of the tests then starts sooner.

A JVM that runs one small query spends most of its time on loading some fifteen thousand classes.
Java maps them from an archive instead, if its class path is the one that the archive was made with; otherwise
it passes over the archive. So that lies in the virtual environment, beside the jars.

    python -m tests.spark.class_archive   # makes it, unless it is there
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# Tests run for seconds in each JVM, over a handful of rows: what the JVM's optimizing compiler and Spark's
# generated code would save later costs more than it brings. A query that waits for tuples lists its folders a
# hundred times a second, which the tests beside it would pay for.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = (
    "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN "
    "-Dspark.sql.streaming.pollingDelay=100"
)
MAKE_S = 300


def driver_options() -> str:
    """Options for the JVMs of tests that are drivers."""
    return f"{SETTINGS} {jvm_options()}"


def jvm_options() -> str:
    """Options for the JVMs of tests."""
    archive = _archive()
    return f"{BRIEF} -XX:SharedArchiveFile={archive} -Xlog:disable" if archive.exists() else BRIEF


def _archive() -> Path:
    """The file for the Java in use; another Java has another file."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home or shutil.which("java") or "").resolve()
    return Path(sys.prefix) / f"spark-classes-{hashlib.sha256(bytes(java)).hexdigest()[:8]}.jsa"


def make() -> None:
    """Runs a small query in a JVM that archives, as it ends, the classes it has loaded."""
    archive = _archive()
    if archive.exists():
        return
    draft = archive.with_suffix(f".{os.getpid()}")
    options = {"SPARK_SUBMIT_OPTS": f"{SETTINGS} {BRIEF} -XX:ArchiveClassesAtExit={draft} -Xlog:disable"}
    command = [sys.executable, "-m", __spec__.name, "--load"]
    subprocess.run(command, env={**os.environ, **options}, timeout=MAKE_S, check=True)
    draft.replace(archive)


def load() -> None:
    """Loads the classes that most tests need, and waits for the JVM to end."""
    from tests.spark.pipelines import QUERIES, random_batches, write_case
    from watersmeet.session import Session
    from watersmeet.spark.jobs.job import RunOptions

    with tempfile.TemporaryDirectory() as folder:
        case = write_case(Path(folder), [QUERIES["plain"]], random_batches(1, 2))
        session = Session(master="local[2]", conf={"spark.driver.memory": "1g"}, log=Path(folder) / "log")
        session.run(case.file, options=RunOptions(available_now=True, flush=True))
        gateway: Any = session.spark.sparkContext._gateway
        session.spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    load() if "--load" in sys.argv else make()
