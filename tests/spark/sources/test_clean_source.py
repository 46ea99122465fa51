"""A source may take away the files it has read, unless another source reads them too."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import QUERIES, random_batches, write_case
from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector, Stream
from watersmeet.serve.create_dataflow import CreationOptions, draft_dataflow
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.sources.clean_source import refuse_shared_cleaning

BASE = Path("/base")


def _stream(name: str, path: str, clean: str = "off", format_: str = "parquet") -> Stream:
    return Stream(name, (), source=Connector(format_, (("path", path), ("cleanSource", clean))))


def test_files_that_are_taken_away_have_one_source() -> None:
    one, plain = _stream("s1", "in", "delete"), _stream("s2", "elsewhere")
    for alone in (
        {"a": [one, plain], "b": [plain]},
        {"a": [one, one]},  # a self-join has one source
        {"a": [one], "b": [_stream("s2", "in2")]},
        {"a": [plain], "b": [plain]},
        {"a": [one], "b": [_stream("s2", "in", format_="rate")]},
    ):
        refuse_shared_cleaning(alone, BASE)
    with pytest.raises(ConfigurationError) as refusal:
        refuse_shared_cleaning({"a": [one, plain], "b": [one]}, BASE)
    assert str(refusal.value) == (
        "stream s1 has cleanSource = 'delete', and the queries a and b both read it. Each source takes files "
        "away once it has read them, whether or not the other has, so tuples would be lost. Leave it out and "
        "remove files yourself, or declare one stream for the files and run the queries as a shared dataflow "
        "(watersmeet serve), which reads each stream once"
    )
    for path in (
        "in",
        "/base/in/",
        "in/*.parquet",
        "in/deeper",
        "../base",
        "file:/base/in",
        "file:///base/in",
    ):
        with pytest.raises(ConfigurationError, match="stream s2 reads the same files"):
            refuse_shared_cleaning({"a": [_stream("s2", path), one]}, BASE)


def test_files_under_two_names_are_the_same_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    for one, other in (("in", "link"), ("link", "in/*.parquet"), ("link/deeper", "in")):
        with pytest.raises(ConfigurationError, match="stream s2 reads the same files"):
            refuse_shared_cleaning({"a": [_stream("s1", one, "delete"), _stream("s2", other)]}, tmp_path)


def test_a_shared_dataflow_whose_streams_share_files_is_not_created(tmp_path: Path) -> None:
    file = tmp_path / "streams.sql"
    stream = (
        "CREATE STREAM {} (k BIGINT, ts TIMESTAMP) "
        "WITH (format = 'json', path = '{}', event_time = 'ts', {});"
    )
    first, cleaned = stream.format("s1", "in", "lateness = '1 s'"), "'option.cleanSource' = 'archive'"
    options, folder = CreationOptions(file), RegistryFolder(tmp_path / "flow")
    file.write_text(first + stream.format("s2", "other", cleaned))
    assert draft_dataflow(folder, options, partitions=1)[0].levels
    file.write_text(first + stream.format("s2", "in", cleaned))
    with pytest.raises(ConfigurationError, match="stream s1 reads the same files"):
        draft_dataflow(folder, options, partitions=1)


def test_a_file_with_two_queries_over_it_is_refused_and_one_takes_it_away_after_its_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = ", 'option.cleanSource' = 'delete', 'option.maxCachedFiles' = '0'"
    both = [QUERIES["plain"], QUERIES["chain"]]
    case = write_case(tmp_path, both, random_batches(seed=51, count=3), stream_options=options)
    now = RunOptions(available_now=True)
    with pytest.raises(ConfigurationError, match="stream s1 has cleanSource = 'delete'"):
        Session(spark).run(case.file, checkpoint=case.checkpoint, options=now)
    case = write_case(tmp_path, both[0], case.batches, stream_options=options)
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=now)
    case.check(spark, flush=False)
    left = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("s1", "s2", "s3")]
    assert all(names == ["0002.parquet"] for names in left), left
