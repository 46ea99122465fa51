"""Secrets by reference are looked up late, and shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from watersmeet.cli.run_request import Request
from watersmeet.cli.serve import ServeRequest
from watersmeet.errors import ConfigurationError, DataError, redact
from watersmeet.plan.explain import explain_plan
from watersmeet.plan.physical import plan_physical
from watersmeet.query import Connector
from watersmeet.serve.create_dataflow import CreationOptions
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.spark.session.connectors import resolve
from watersmeet.spark.session.kafka_options import source_options
from watersmeet.spark.sinks.postgres import _database
from watersmeet.sql import parse_pipeline

PLANTED = "xyzzy-planted-1"
FILE = """\
CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (
  format = 'kafka', bootstrap = 'host:9092', topic = 't', event_time = 'ts',
  'kafka.sasl.jaas.config' = 'login password="${env:PLANTED}";');
CREATE SINK db WITH (format = 'postgres', url = 'jdbc:postgresql://h/d?password=${env:PLANTED}',
  table = 'x', password = '${file:keys/password.txt}');
CREATE SINK out WITH (format = 'json', path = '${env:PLANTED_FOLDER}/out');
INSERT INTO db SELECT a.k FROM s [RANGE 1 MINUTE] AS a;
"""


@pytest.fixture
def pipeline_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLANTED", PLANTED)
    monkeypatch.setenv("PLANTED_FOLDER", "elsewhere")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/password.txt").write_text(f"{PLANTED}-of-file\n")
    file = tmp_path / "flow.sql"
    file.write_text(FILE)
    return file


def test_options_get_the_secrets_of_the_moment(pipeline_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = parse_pipeline(FILE, file=str(pipeline_file))
    source, (db, out) = pipeline.streams[0].source, pipeline.sinks
    assert source is not None
    assert f'password="{PLANTED}"' in source_options("stream s", source).connector["kafka.sasl.jaas.config"]
    assert _database(db).properties["password"] == f"{PLANTED}-of-file"
    assert _database(db).url.endswith(f"password={PLANTED}")
    assert (
        resolve(out.connector, pipeline_file.parent)["path"] == f"file:{pipeline_file.parent}/elsewhere/out"
    )
    monkeypatch.setenv("PLANTED", "another-secret")
    assert "another-secret" in source_options("stream s", source).connector["kafka.sasl.jaas.config"]


def test_what_is_kept_and_shown_has_the_reference(pipeline_file: Path) -> None:
    pipeline = parse_pipeline(FILE, file=str(pipeline_file))
    before = plan_physical(pipeline.queries[0], 2, None, None)
    for connector in (pipeline.streams[0].source, *(sink.connector for sink in pipeline.sinks)):
        assert connector is not None
        connector.filled_in("it")
        assert PLANTED not in repr(connector) + connector.pretty()
        assert "${" in connector.pretty()
    assert PLANTED not in explain_plan(before) + before.fingerprint + repr(pipeline)
    assert plan_physical(parse_pipeline(FILE).queries[0], 2, None, None).fingerprint == before.fingerprint


def test_a_secret_that_is_missing_is_named_with_its_option_and_line(tmp_path: Path) -> None:
    pipeline = parse_pipeline(FILE, file=str(tmp_path / "flow.sql"))
    source, (db, _) = pipeline.streams[0].source, pipeline.sinks
    assert source is not None
    with pytest.raises(
        ConfigurationError, match=r"stream s, option kafka.sasl.jaas.config \(line 3\): there is "
    ):
        source_options("stream s", source)
    with pytest.raises(ConfigurationError, match=r"sink db, option url \(line 4\): .* variable PLANTED"):
        _database(db)
    alone = Connector("json", (("password", "${file:nowhere.txt}"),))
    with pytest.raises(ConfigurationError, match=r"it, option password: the file nowhere.txt cannot be read"):
        alone.filled_in("it")
    with pytest.raises(ConfigurationError, match=r"option password: \$\{env:\} names nothing"):
        Connector("json", (("password", "${env: }"),)).filled_in("it")
    assert (
        Connector("json", (("a", "${user.home} $x ${other:y}"),)).filled_in("it")["a"].startswith("${user.")
    )


def test_messages_never_show_a_secret_that_is_in_use(pipeline_file: Path) -> None:
    for sink in parse_pipeline(FILE, file=str(pipeline_file)).sinks:
        sink.connector.filled_in("it")
    error = DataError(f"Spark failed: no route to jdbc:postgresql://h/d?password={PLANTED}&x=1")
    assert str(error) == "Spark failed: no route to jdbc:postgresql://h/d?password=***&x=1"
    assert PLANTED not in redact(f"{PLANTED}-of-file")


def test_the_command_to_resume_repeats_no_secret() -> None:
    conf = ("spark.hadoop.fs.s3a.secret.key=hunter2", "a.password=${env:PW}", "spark.driver.memory=1g")
    for command in (
        Request(file=Path("x.sql"), conf=conf).command(),
        ServeRequest(RegistryFolder(Path("flow")), CreationOptions(), conf=conf).command(),
    ):
        assert "hunter2" not in command
        assert "'spark.hadoop.fs.s3a.secret.key=***'" in command
        assert "'a.password=${env:PW}'" in command
        assert "spark.driver.memory=1g" in command
