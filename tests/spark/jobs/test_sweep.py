"""Sweeps of simulations as Spark jobs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from pyspark.sql import SparkSession

from watersmeet.lab.figures.rjoin.experiment import Experiment, run_experiment
from watersmeet.lab.figures.runners import run_here
from watersmeet.spark.jobs.sweep import run_sweep

pytestmark = pytest.mark.spark

SMALL = Experiment(nodes=30, queries=20, checkpoints=(10,), warm_up=5)


def test_a_sweep_on_spark_gives_what_a_sweep_here_gives(spark: SparkSession) -> None:
    tasks = [replace(SMALL, strategy="ric"), replace(SMALL, strategy="random"), replace(SMALL, seed=1)]
    assert partial(run_sweep, spark)(tasks, run_experiment) == run_here(tasks, run_experiment)


def test_a_sweep_reports_its_progress_up_to_the_end(spark: SparkSession) -> None:
    told: list[tuple[int, int]] = []
    results = run_sweep(spark, [1, 2, 3], abs, progress=lambda done, total: told.append((done, total)))
    assert results == [1, 2, 3]
    assert told[-1] == (3, 3)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_sweep_of_nothing_is_nothing(spark: SparkSession) -> None:
    assert run_sweep(spark, [], abs) == []
