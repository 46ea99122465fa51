"""A folder with a dataflow, and servers in a hurry."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.serve.registry.dataflows import new_record
from watersmeet.serve import server as server_module
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import write_record


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers neither wait nor sync: processes are killed here, machines are not."""
    monkeypatch.setattr(server_module, "POLL_S", 0.0)
    monkeypatch.setattr(server_module, "WAIT_POLL_S", 0.0)
    monkeypatch.setattr(server_module, "QUIET_S", 0.0)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def folder(tmp_path: Path) -> RegistryFolder:
    dataflow = RegistryFolder(tmp_path)
    write_record(dataflow, new_record(tmp_path))
    return dataflow
