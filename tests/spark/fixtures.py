"""The one Spark session all Spark tests share, made the way a user's is made."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.class_archive import driver_options
from tests.spark.kafka.broker import Broker, NotFetchedError, jars_setting, running_broker
from watersmeet.spark.generator.data_source import register
from watersmeet.spark.session.environment import new_session

# Processes that tests start inherit this.
os.environ.setdefault("SPARK_SUBMIT_OPTS", driver_options())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "connectors: needs jars that are fetched once, for Kafka, Avro, PostgreSQL"
    )


@pytest.fixture(scope="session")
def connectors(request: pytest.FixtureRequest) -> dict[str, str]:
    """The setting that brings the connectors' jars, or none where no test of this run needs them."""
    if not any(item.get_closest_marker("connectors") for item in request.session.items):
        return {}
    try:
        return jars_setting()
    except NotFetchedError:
        return {}  # those tests skip themselves, and say why


@pytest.fixture(autouse=True)
def _skip_without_connectors(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("connectors"):
        try:
            jars_setting()
        except NotFetchedError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker for all tests; who stops it starts it again."""
    try:
        with running_broker(tmp_path_factory.mktemp("kafka")) as started:
            yield started
    except NotFetchedError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, connectors: dict[str, str]) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    session = new_session(
        "local[2]",  # two tasks at once, so that buckets do run side by side
        "watersmeet-tests",
        {
            # Buckets that move between workers are tested in process.
            "spark.sql.shuffle.partitions": "2",
            # Small data: a heap that leaves the machine to the tests beside it.
            "spark.driver.memory": "1g",
            # Scratch files and tables go where pytest cleans up.
            "spark.local.dir": str(folder / "scratch"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            # A streaming query that a failed test left behind must not hold up the end of the run.
            "spark.sql.streaming.stopTimeout": "20s",
            **connectors,
        },
        log=folder / "spark.log",
    )
    register(session)
    yield session
    for query in session.streams.active:
        query.stop()
    session.stop()


@pytest.fixture(autouse=True)
def _settings_of_its_own(request: pytest.FixtureRequest) -> Iterator[None]:
    """What one test sets in the shared session is not set in the next one."""
    if "spark" not in request.fixturenames:
        yield
        return
    conf = request.getfixturevalue("spark").conf
    before = conf.getAll
    yield
    after = conf.getAll
    for key in after.keys() - before.keys():
        conf.unset(key)
    for key, value in before.items():
        if after.get(key) != value:
            conf.set(key, value)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test that asks for the session is a Spark test."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
