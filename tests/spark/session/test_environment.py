from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.spark.session import environment
from watersmeet.spark.session.environment import (
    FILE_MANAGER,
    QUICK_FILES,
    check_java,
    check_session,
    default_partitions,
    keep_renames_safe,
    new_session,
)

HDFS_PROVIDER = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


def _java(folder: Path, output: str, code: int = 0) -> Path:
    """A stand-in `java` that answers -version."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{output}' >&2\nexit {code}\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_a_java_new_enough_is_found_by_java_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    java = _java(tmp_path, f'openjdk version "{version}" 2025-04-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java() == str(java)


def test_a_java_new_enough_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = _java(tmp_path, 'openjdk version "17.0.1" 2025-04-15')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{java.parent}{os.pathsep}{os.environ['PATH']}")
    assert check_java() == str(java)


def test_without_java_the_message_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError) as refusal:
        check_java()
    assert str(refusal.value) == (
        "Spark needs Java 17 or newer, but there is no `java` on the PATH and JAVA_HOME is not set.\n"
        "  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless\n"
        "  Fedora:          sudo dnf install java-17-openjdk-headless\n"
        "  macOS:           brew install openjdk@17\n"
        "If Java is installed but not found, point JAVA_HOME at its folder."
    )


@pytest.mark.parametrize(
    ("output", "code", "problem"),
    [
        ('java version "1.8.0_392"', 0, "is Java 8; JAVA_HOME is"),
        ('openjdk version "11.0.2"', 0, "is Java 11; JAVA_HOME is"),
        ("Unable to locate a Java Runtime", 1, "does not print its version; JAVA_HOME is"),
    ],
)
def test_a_java_that_will_not_do_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, code: int, problem: str
) -> None:
    _java(tmp_path, output, code)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=problem):
        check_java()


def test_a_java_home_that_is_nowhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match=r"nowhere/bin/java does not run .*; JAVA_HOME is"):
        check_java()


@pytest.mark.parametrize(
    ("master", "conf", "partitions"),
    [
        ("local", {}, 1),
        ("local[8]", {}, 4),
        ("local[ 3 , 4 ]", {}, 1),
        ("local-cluster[2,3,1024]", {}, 6),
        ("spark://host:7077", {"spark.cores.max": "12"}, 12),
        ("yarn", {"spark.executor.instances": "5", "spark.executor.cores": "4"}, 20),
        ("spark://host:7077", {}, environment.CLUSTER_PARTITIONS),
    ],
)
def test_a_cluster_has_a_partition_a_core_and_a_machine_half_as_many(
    master: str, conf: dict[str, str], partitions: int
) -> None:
    assert default_partitions(master, conf) == partitions


@pytest.mark.parametrize(
    ("master", "started"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_retries_unless_it_says_otherwise(master: str, started: str) -> None:
    assert environment.with_retries(master) == started


def test_the_session_made_here_has_all_it_needs(spark: SparkSession) -> None:
    assert check_session(spark) == ()
    assert spark.sparkContext.pythonExec == sys.executable
    assert spark.sparkContext.master == "local[2,4]"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_what_the_caller_sets_wins(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_second_session_is_refused_rather_than_silently_shared(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="already running in this process"):
        new_session("local[1]")


def test_a_session_that_will_not_do_is_refused_with_every_problem_and_not_changed(
    spark: SparkSession,
) -> None:
    other = spark.newSession()
    other.conf.set(environment.PROVIDER, HDFS_PROVIDER)
    other.conf.set("spark.sql.shuffle.partitions", "5000")
    with pytest.raises(ConfigurationError) as refusal:
        check_session(other)
    assert str(refusal.value) == (
        "this Spark session cannot run Watersmeet:\n"
        f"  - {environment.PROVIDER} is {HDFS_PROVIDER}; now: "
        f'spark.conf.set("{environment.PROVIDER}", "{environment.ROCKSDB}")\n'
        "  - spark.sql.shuffle.partitions is 5000, more than the 4096 buckets there can be; now: "
        'spark.conf.set("spark.sql.shuffle.partitions", "2")'
    )
    assert other.conf.get(environment.PROVIDER) == HDFS_PROVIDER


def test_workers_of_another_python_are_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/usr/bin/env")
    with pytest.raises(
        ConfigurationError, match=r"workers run /usr/bin/env.*set the environment variable PYSPARK_PYTHON"
    ):
        check_session(spark)


def test_settings_that_only_cost_speed_come_back_as_advice(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.shuffle.partitions", "200")
    other.conf.set(environment.CHANGELOG, "false")
    assert check_session(other) == (
        "spark.sql.shuffle.partitions is 200 for 2 cores: every batch commits that many states; "
        'spark.conf.set("spark.sql.shuffle.partitions", "2")',
        f"{environment.CHANGELOG} is false: a batch uploads its whole state, not what changed; "
        f'spark.conf.set("{environment.CHANGELOG}", "true")',
    )


@pytest.mark.parametrize(
    ("checkpoint", "given", "left"),
    [
        ("/data/flow", QUICK_FILES, QUICK_FILES),
        ("file:/data/flow", QUICK_FILES, QUICK_FILES),
        ("hdfs:///data/flow", QUICK_FILES, None),
        ("s3a://bucket/flow", QUICK_FILES, None),
        ("s3a://bucket/flow", "their.own", "their.own"),
        ("s3a://bucket/flow", None, None),
    ],
)
def test_only_a_checkpoint_on_this_disk_is_renamed_our_way(
    checkpoint: str, given: str | None, left: str | None
) -> None:
    conf = {FILE_MANAGER: given} if given else {}
    session = SimpleNamespace(conf=SimpleNamespace(get=conf.get, unset=conf.pop))
    keep_renames_safe(cast(SparkSession, session), checkpoint)
    assert conf.get(FILE_MANAGER) == left
