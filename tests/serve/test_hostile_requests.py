"""Whatever lies among the requests, the server starts, answers what it can, and serves the others."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.serve.fake_engine import FakeEngine
from tests.serve.registry.dataflows import CHAIN, PAIR, PLANNER, new_record
from watersmeet.serve import server as server_module
from watersmeet.serve.registry import requests as requests_module
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import require_record, write_record
from watersmeet.serve.registry.requests import REPLIES, REQUESTS, Reply, Submit, send
from watersmeet.serve.server import Server

DEEP = {
    "a text of brackets": "[" * 200_000,
    "nested objects": '{"do":' * 100_000 + "1" + "}" * 100_000,
    "not JSON": "\x00\x01",
    "another shape": '{"do": "submit", "queries": [["q", 1]]}',
    "an unknown wish": '{"do": "stop"}',
    "a number too long": '{"do": "drop", "names": ' + "9" * 5_000 + "}",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegistryFolder:
    monkeypatch.setattr(server_module, "POLL_S", 0.0)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    dataflow = RegistryFolder(tmp_path)
    write_record(dataflow, new_record(tmp_path))
    return dataflow


def serve(folder: RegistryFolder) -> list[str]:
    """Serves for a few rounds; the names of the queries then."""
    left = iter(range(4))
    record = require_record(folder)
    engine = FakeEngine()
    Server(folder=folder, record=record, engine=engine, planner=PLANNER).serve(
        lambda: next(left, None) is None
    )
    return list(require_record(folder).staying)


def replies(folder: RegistryFolder) -> list[Reply]:
    names = folder.names(REPLIES, ".json")
    return [Reply(**json.loads(folder.read(f"{REPLIES}/{name}.json") or "")) for name in names]


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_a_request_that_nobody_can_read_is_refused(folder: RegistryFolder, text: str) -> None:
    bad = send(folder, Submit((("bad", CHAIN),)))
    (folder.path / REQUESTS / f"{bad}.json").write_text(text)
    send(folder, Submit((("good", CHAIN),)))
    assert serve(folder) == ["good"]
    assert [reply.refusal is None for reply in replies(folder)] == [False, True]
    assert serve(folder) == ["good"]


@pytest.mark.parametrize(
    "expression", ["(" * 3_000 + "a.v" + ")" * 3_000, "NOT " * 5_000 + "true", " + ".join(["a.v"] * 5_000)]
)
def test_a_query_nested_beyond_reason_is_refused(folder: RegistryFolder, expression: str) -> None:
    send(folder, Submit((("deep", f"{PAIR.format(1)} AND {expression} = 1"),)))
    send(folder, Submit((("good", CHAIN),)))
    assert serve(folder) == ["good"]
    assert "nested too deeply" in (replies(folder)[0].refusal or "")


def test_a_request_of_any_length_is_not_read(folder: RegistryFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests_module, "MOST_BYTES", 1_000)
    send(folder, Submit((("long", CHAIN + " " * 2_000),)))
    assert serve(folder) == []
    assert "longer than 1,000 bytes" in (replies(folder)[0].refusal or "")


def test_a_query_that_takes_long_to_read_is_not_read(folder: RegistryFolder) -> None:
    send(folder, Submit((("long", "SELECT " + "'x', " * 400_000 + "'"),)))
    assert serve(folder) == []
    assert "more than 2,000,000 characters" in (replies(folder)[0].refusal or "")


def test_files_that_no_client_has_written_are_left_alone(folder: RegistryFolder) -> None:
    requests = folder.path / REQUESTS
    requests.mkdir()
    for name in ("x" * 240, "..", " "):
        (requests / f"{name}.json").write_text("{}")
    (requests / "folder.json").mkdir()
    send(folder, Submit((("good", CHAIN),)))
    assert serve(folder) == ["good"]
    assert serve(folder) == ["good"]


@pytest.mark.parametrize(
    "call", ["reflect('java.lang.System', 'exit', 0)", "version()", "mine(a.v)", "repeat(a.w, 2000000000)"]
)
def test_a_query_that_reaches_beyond_its_tuples_is_refused(folder: RegistryFolder, call: str) -> None:
    send(folder, Submit((("bad", PAIR.format(1).replace("SELECT", f"SELECT {call} AS x,")),)))
    assert serve(folder) == []
    assert call.partition("(")[0] in (replies(folder)[0].refusal or "")
