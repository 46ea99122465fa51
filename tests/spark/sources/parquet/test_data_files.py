"""What a folder of any number of files, and of symbolic links, is taken to hold."""

from __future__ import annotations

from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace

import pytest

from watersmeet.errors import DataError
from watersmeet.query import Column, Connector, Stream
from watersmeet.spark.sources.open_stream import read_stream
from watersmeet.spark.sources.parquet.data_files import DataFile, data_files, sample_files


def names(path: Path) -> list[str]:
    return sorted(file.path.removeprefix(f"{path}/") for file in data_files(path))


def test_what_spark_passes_over_is_left_out(tmp_path: Path) -> None:
    for name in ("a", "k=1/b", "_k=1/c", "_log/d", ".hidden/e", "f._COPYING_", "deep/deeper/g"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "empty").touch()
    assert names(tmp_path) == ["_k=1/c", "a", "deep/deeper/g", "k=1/b"]
    assert [file.path for file in data_files(tmp_path / "a")] == [str(tmp_path / "a")]
    assert len(list(data_files(tmp_path / "[ak]*"))) == 2
    assert list(data_files(tmp_path / "none")) == []


def test_links_are_followed_and_lead_nowhere_twice(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "far").write_text("x")
    source = tmp_path / "in"
    (source / "k=1").mkdir(parents=True)
    (source / "near").write_text("xx")
    (source / "file").symlink_to("near")
    (source / "k=2").symlink_to("../elsewhere")
    (source / "dangling").symlink_to("nowhere")
    (source / "round").symlink_to(".")
    (source / "k=1" / "up").symlink_to("..")
    (tmp_path / "name").symlink_to("in")
    assert names(source) == ["file", "k=2/far", "near"]
    assert names(tmp_path / "name") == names(source)
    assert {file.size for file in data_files(source)} == {1, 2}
    loops: list[str] = []
    assert len(list(data_files(source, loops))) == 3
    assert sorted(loops) == [str(source / "k=1" / "up"), str(source / "round")]


def test_a_link_round_which_spark_would_go_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in" / "deeper").mkdir(parents=True)
    (tmp_path / "in" / "deeper" / "back").symlink_to("..")
    columns = (Column("k", "bigint"), Column("ts", "timestamp"))
    options = (("path", "in"), ("recursiveFileLookup", "true"))
    stream = Stream("s", columns, "ts", source=Connector("json", options))
    with pytest.raises(DataError, match=r"stream s: .*/in/deeper/back is a link that leads back"):
        read_stream(SimpleNamespace(), stream, tmp_path)  # type: ignore[arg-type] # refused before it is used


@pytest.mark.parametrize("count", [0, 1, 2, 4, 5, 8, 9, 1000, 1023])
def test_of_many_files_a_few_are_kept_evenly_with_the_first_and_the_last(count: int) -> None:
    files = [DataFile(f"{number:04}", 1, -number) for number in range(count)]
    for order in (itemgetter(0), itemgetter(2)):
        found, counted = sample_files(iter(files), 4, order)
        assert counted == count
        ordered = sorted(files, key=order)
        assert len(found) == min(4, count)
        assert found == sorted(found, key=order)
        assert count > 4 or found == ordered
        assert not found or (found[0], found[-1]) == (ordered[0], ordered[-1])
        numbers = sorted(-file.modified_ns for file in found)
        assert all(later - one <= count * 0.7 for one, later in pairwise(numbers))
