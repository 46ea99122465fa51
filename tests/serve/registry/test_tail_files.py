"""Answers for who looks on: whole batches, each once, whatever happens to those who write them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watersmeet.serve.registry import tail_files
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.tail_files import TailReader, TailWriter


def test_a_reader_sees_what_comes_after_it_batch_by_batch(tmp_path: Path) -> None:
    folder = RegistryFolder(tmp_path)
    tail = TailReader(folder, "a.b")
    tail.open()
    server = TailWriter(folder)
    assert server.wanted() == ["a.b"]
    server.append(3, {"a.b": ["1", "2"]})
    late = TailReader(folder, "a.b")
    late.open()
    server.append(4, {"a.b": ["3"]})
    assert tail.read() == ["1", "2", "3"]
    assert late.read() == ["3"]
    assert tail.read() == []


def test_a_batch_that_was_cut_off_is_shown_when_it_was_done_again(tmp_path: Path) -> None:
    folder = RegistryFolder(tmp_path)
    tail = TailReader(folder, "q")
    tail.open()
    server = TailWriter(folder)
    server.append(3, {"q": ["1"]})
    path = tmp_path / "tails" / "q.jsonl"
    with path.open("a") as file:
        file.write("\n# 4 3 -\n2\nhal")
    assert tail.read() == ["1"]
    server.append(3, {"q": ["1"]})
    server.append(4, {"q": ["2", "half", "3"]})
    assert tail.read() == ["2", "half", "3"]
    server.append(4, {"q": ["2", "half", "3"]})
    assert tail.read() == []


def test_a_query_that_goes_on_beside_the_dataflow_has_batches_of_its_own(tmp_path: Path) -> None:
    tail, server = TailReader(RegistryFolder(tmp_path), "q"), TailWriter(RegistryFolder(tmp_path))
    tail.open()
    for batch, writer in ((7, "-"), (0, "3"), (1, "3"), (1, "3"), (8, "-")):
        server.append(batch, {"q": [f"{writer} {batch}"]}, writer)
    with (tmp_path / "tails" / "q.jsonl").open("a") as file:
        file.write("\n# 9")  # killed there
    server.append(9, {"q": ["- 9"]})
    assert tail.read() == ["- 7", "3 0", "3 1", "- 8", "- 9"]


def test_a_long_file_is_begun_anew_and_nothing_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_files, "MAX_BYTES", 50)
    folder = RegistryFolder(tmp_path)
    tail = TailReader(folder, "q")
    tail.open()
    server, seen = TailWriter(folder), []
    for batch in range(20):
        server.append(batch, {"q": [f"answer {batch}"]})
        seen += tail.read()
    assert seen == [f"answer {batch}" for batch in range(20)]
    assert (tmp_path / "tails" / "q.jsonl").stat().st_size < 100


def test_what_nobody_waits_for_any_more_is_taken_away(tmp_path: Path) -> None:
    folder, server = RegistryFolder(tmp_path), TailWriter(RegistryFolder(tmp_path))
    for name in ("here", "gone"):
        TailReader(folder, name).open()
        server.append(0, {name: ["1"]})
    os.utime(tmp_path / "tails" / "gone.want", (0, 0))
    assert server.wanted() == ["here"]
    server.sweep()
    assert sorted(path.name for path in (tmp_path / "tails").iterdir()) == ["here.jsonl", "here.want"]
