"""What is written whole is private, and on the disk, with its folder, before anybody relies on it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.requests import Mailbox, Reply, Submit, send
from watersmeet.serve.registry.status import Status
from watersmeet.serve.registry.tail_files import TailReader, TailWriter
from watersmeet.spark.sinks.file_commit import FileWriter, begin, commit
from watersmeet.spark.storage.tree import LocalTree


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_all_that_a_shared_dataflow_keeps_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        folder = RegistryFolder(tmp_path / "flow")
        with folder.serving():
            folder.write("dataflow.json", "{}")
            Status().write(folder)
            request = send(folder, Submit((("q", "SELECT 1"),)))
            Mailbox(folder).reply(request, Reply(refusal="no"))
            TailReader(folder, "q").open()
            TailWriter(folder).append(1, {"q": ["{}"]})
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path): mode_of(path) for path in tmp_path.rglob("*")}
    assert len(modes) >= 8
    assert {str(path): oct(mode) for path, mode in modes.items() if mode not in (0o600, 0o700)} == {}


def test_what_cannot_be_written_whole_leaves_the_old_text_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RegistryFolder(tmp_path)
    folder.write("dataflow.json", "old")

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigurationError, match=r"dataflow.json cannot be written: No space left on device"):
        folder.write("dataflow.json", "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_record_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    record = tmp_path / "dataflow.json"
    record.write_text("{}")
    record.chmod(0o644)
    with RegistryFolder(tmp_path).serving():
        assert mode_of(record) == 0o600


def test_files_and_their_folders_are_synced_before_the_record_that_promises_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    real_fsync, real_link, real_replace = os.fsync, os.link, os.replace

    def fsync(descriptor: int) -> None:
        events.append(f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).relative_to(tmp_path)}")
        real_fsync(descriptor)

    def link(source: Path, target: Path) -> None:
        events.append(f"name {Path(target).relative_to(tmp_path)}")
        real_link(source, target)

    def replace(source: Path, target: Path) -> None:
        events.append(f"name {Path(target).relative_to(tmp_path)}")
        real_replace(source, target)

    tree, writer = LocalTree(tmp_path), FileWriter("q", "9f3c01ab")
    attempt = begin(tree, writer, batch=3, queries=frozenset({"q"}), token="t")
    (tmp_path / attempt.staging).mkdir(parents=True)
    (tmp_path / attempt.staging / "part-0.json").write_text("{}")
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "replace", replace)
    commit(tree, writer, attempt)
    record, answers = f"{writer.log}/batch-3-0", "q-9f3c01ab-3-0.json"
    assert events.index(f"sync {attempt.staging}/part-0.json") < events.index(f"name {record}")
    assert events.index(f"sync {attempt.staging}") < events.index(f"name {record}")
    assert (
        events.index(f"name {record}") < events.index(f"sync {writer.log}") < events.index(f"name {answers}")
    )
    assert events.index(f"name {answers}") < events.index("sync .")
    events.clear()
    RegistryFolder(tmp_path).write("status.json", "{}")
    assert [each.partition(" ")[0] for each in events] == ["sync", "name", "sync"]
