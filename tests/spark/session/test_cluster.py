"""The same pipeline on a standalone cluster whose executors do not have Watersmeet installed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.paths import ROOT
from tests.spark.class_archive import jvm_options
from tests.spark.pipelines import QUERIES, random_batches, write_case
from tests.spark.run_pipeline import Request
from watersmeet.spark.session.ship import zip_package

SPARK_HOME = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class Cluster:
    """A running cluster: its master, and where its worker keeps what executors leave behind."""

    master: str
    worker: Path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A master and a worker with room for an executor of two cores, on loopback."""
    environment = {
        **_without_our_path(),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": jvm_options(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path),
        "SPARK_LOCAL_DIRS": str(tmp_path / "scratch"),
    }
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    room = ["--cores", "2", "--memory", "900m", "--work-dir", str(tmp_path / "worker")]
    commands = {
        "master": ["master.Master", *here, "--port", str(port)],
        "worker": ["worker.Worker", *here, "--port", "0", *room, master],
    }
    started = []
    try:
        for name, (role, *arguments) in commands.items():
            command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *arguments]
            with (tmp_path / f"{name}.log").open("wb") as log:
                started.append(
                    subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
                )
        yield Cluster(master, tmp_path / "worker")
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(timeout=60)


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """An interpreter with all that Watersmeet stands on, but not Watersmeet."""
    venv.create(tmp_path / "bare", symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    packages = tmp_path / "packages"
    packages.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "watersmeet" not in entry.name:
            (packages / entry.name).symlink_to(entry)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = tmp_path / "bare" / "lib" / version / "site-packages"
    (own / "packages.pth").write_text(f"{packages}\n")
    assert _imports(python, tmp_path, "numba, pandas, pyarrow, google.protobuf")
    assert not _imports(python, tmp_path, "watersmeet")
    return python


def _imports(python: Path, folder: Path, names: str) -> bool:
    command, path = [python, "-c", f"import {names}"], _without_our_path()
    return subprocess.run(command, cwd=folder, env=path, capture_output=True, check=False).returncode == 0


def _without_our_path() -> dict[str, str]:
    """The environment of a machine where nobody has put Watersmeet on the path."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.mark.slow
def test_a_cluster_without_the_package_gives_the_same_answers(
    spark: SparkSession, tmp_path: Path, cluster: Cluster, bare_python: Path
) -> None:
    case = write_case(tmp_path / "case", QUERIES["plain"], random_batches(seed=30, count=2))
    small = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": jvm_options(),
        "spark.executor.cores": "2",
        "spark.cores.max": "2",
        "spark.executorEnv.HOME": "/proc/nowhere",  # as in a container: nothing can be kept there
    }
    log = tmp_path / "driver.log"
    request = Request(str(case.file), str(case.checkpoint), str(log), cluster.master, conf=small)
    run = subprocess.run(
        request.command,
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": str(bare_python)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    case.check(spark)
    executors = list(cluster.worker.glob("app-*/[0-9]*"))
    assert executors
    for executor in executors:
        assert (executor / "watersmeet.zip").exists(), f"executor {executor.name} has not run any of it"
        assert list(executor.glob("numba/**/*.nbi")), f"executor {executor.name} compiles in every process"


def test_the_package_ships_whole_and_alone() -> None:
    with zipfile.ZipFile(zip_package()) as archive:
        names = archive.namelist()
    assert {
        "watersmeet/__init__.py",
        "watersmeet/kernel/join/multiway.py",
        "watersmeet/spark/stages/join_stage.py",
    } <= {*names}
    assert all(name.startswith("watersmeet/") and "__pycache__" not in name for name in names)
    assert zip_package() == zip_package()
