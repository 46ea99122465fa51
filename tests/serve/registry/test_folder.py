"""The folder of a shared dataflow is one folder, whatever way leads to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.registry.dataflows import new_record
from tests.serve.serving import one, replies
from watersmeet.errors import ConfigurationError
from watersmeet.serve.registry import folder as folder_module
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import read_record, write_record
from watersmeet.serve.registry.requests import Mailbox, Reply, send


def test_a_folder_is_served_once_and_asked_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "_LOCK_PATIENCE_S", 0.0)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    real, link = RegistryFolder(tmp_path / "real"), RegistryFolder(tmp_path / "link")
    write_record(real, new_record(tmp_path))
    assert read_record(link) == read_record(real)
    with real.serving():
        assert link.is_served()
        with pytest.raises(ConfigurationError, match="is served already"), link.serving():
            pass
        request = send(link, one("a"))
        assert Mailbox(real).pending() == [request]
        Mailbox(real).reply(request, Reply(batch=3))
        assert replies(link) == {request: Reply(batch=3)}
    assert not link.is_served()
