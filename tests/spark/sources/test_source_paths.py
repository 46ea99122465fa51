"""Where a stream's files are may change while the old ones are still among them, and not otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.plan.physical import plan_physical
from watersmeet.query import Connector, Sink
from watersmeet.spark.jobs.checkpoint import RECORD, Checkpoint
from watersmeet.spark.sources.source_paths import refuse_own_answers, source_paths, takes_in
from watersmeet.sql import parse_pipeline

FILE = """
CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (format = 'json', path = '{path}', event_time = 'ts');
CREATE STREAM t (k BIGINT, ts TIMESTAMP) WITH (format = 'kafka', topic = 'path', event_time = 'ts');
SELECT a.k FROM s [RANGE 1 MINUTE] AS a, t [RANGE 1 MINUTE] AS b WHERE a.k = b.k;
"""


def resume(folder: Path, path: str) -> None:
    """Plans the query as a run does whose pipeline file names this path."""
    query = parse_pipeline(FILE.format(path=path)).queries[0]
    checkpoint = Checkpoint(None, str(folder / "c"))  # type: ignore[arg-type] # a local folder needs none
    checkpoint.plan(plan_physical(query, 2), source_paths(query.streams, folder))


def begin_a_batch(folder: Path) -> None:
    (folder / "c" / "spark" / "offsets").mkdir(parents=True)
    (folder / "c" / "spark" / "offsets" / "0").touch()


def test_a_path_that_leaves_the_old_files_out_is_refused_once_a_batch_has_begun(tmp_path: Path) -> None:
    resume(tmp_path, "first")
    resume(tmp_path, "in")
    begin_a_batch(tmp_path)
    resume(tmp_path, "in/")
    with pytest.raises(ConfigurationError, match=f"has read {tmp_path}/in, but now reads {tmp_path}/new"):
        resume(tmp_path, "new")
    resume(tmp_path, "{in,new}")
    with pytest.raises(ConfigurationError, match="Put the old path back, or write a pattern"):
        resume(tmp_path, "in")  # what was read in new would be left out


def test_a_record_without_paths_gets_them(tmp_path: Path) -> None:
    resume(tmp_path, "in")
    begin_a_batch(tmp_path)
    record = tmp_path / "c" / RECORD
    fields = json.loads(record.read_text())
    assert fields.pop("paths") == {"s": f"{tmp_path}/in"}
    record.write_text(json.dumps(fields))
    resume(tmp_path, "new")
    assert json.loads(record.read_text())["paths"] == {"s": f"{tmp_path}/new"}


@pytest.mark.parametrize(
    ("path", "is_taken"),
    [
        ("/data/in", True),
        ("/data/*", True),
        ("/d?ta/[hi]n", True),
        ("/data/{out,in}", True),
        ("/data", True),
        ("/data/in/*.json", True),
        ("/data/in/2025/*", False),
        ("/data/[!i]n", False),
        ("/data/{in", False),
        ("/*", True),
        ("/data/inn", False),
        ("s3a://data/in", False),
    ],
)
def test_a_pattern_takes_in_what_it_names(path: str, is_taken: bool) -> None:
    assert takes_in(path, "/data/in") == is_taken


@pytest.mark.parametrize(
    ("sink", "is_refused"),
    [("in", True), ("in/", True), ("in/out", True), ("file:{base}/in", True), ("out", False), ("inn", False)],
)
def test_answers_do_not_come_back_as_tuples(tmp_path: Path, sink: str, is_refused: bool) -> None:
    target = Sink("out", Connector("parquet", (("path", sink.format(base=tmp_path)),)))
    for path in ("in", "[hi]n", str(tmp_path / "in")):
        streams = parse_pipeline(FILE.format(path=path)).queries[0].streams
        if is_refused:
            with pytest.raises(ConfigurationError, match=r"sink out writes to .*, where stream s reads"):
                refuse_own_answers(streams, target, tmp_path)
        else:
            refuse_own_answers(streams, target, tmp_path)
    refuse_own_answers(streams, Sink("out", Connector("kafka", (("topic", "in"),))), tmp_path)
    refuse_own_answers(streams, None, tmp_path)


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ("in", "link"),
        ("link", "in"),
        ("link", "in/out"),
        ("link/*", "in/out"),
        ("in", "x/../in"),
        ("x/../in", "link"),
    ],
)
def test_a_folder_of_two_names_is_one_folder(tmp_path: Path, source: str, sink: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    streams = parse_pipeline(FILE.format(path=source)).queries[0].streams
    with pytest.raises(ConfigurationError, match="the answers would come back as tuples"):
        refuse_own_answers(streams, Sink("out", Connector("parquet", (("path", sink),))), tmp_path)
    refuse_own_answers(streams, Sink("out", Connector("parquet", (("path", "link2"),))), tmp_path)
