"""Fifty clients at once: each gets a reply of its own, in a few changes, and one name has one owner."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.serve.fake_engine import FakeEngine
from tests.serve.registry.dataflows import PAIR
from tests.serve.serving import new_server, one
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import require_record
from watersmeet.serve.registry.requests import REPLIES, REQUESTS, Reply, await_reply, send
from watersmeet.serve.server import Change

pytestmark = pytest.mark.usefixtures("hurry")

CLIENTS = 50
SHARED = 10  # of them want the same name


def test_clients_that_all_come_at_once(folder: RegistryFolder) -> None:
    server, changes = new_server(folder, FakeEngine(rounds=3)), list[Change]()
    server.on_change = changes.append
    together, done = threading.Barrier(CLIENTS), threading.Semaphore(0)

    def ask(number: int) -> Reply:
        name = "shared" if number < SHARED else f"own{number}"
        together.wait()
        try:
            return await_reply(folder, send(folder, one(name, PAIR.format(number))))
        finally:
            done.release()

    with folder.serving(), ThreadPoolExecutor(CLIENTS) as clients:
        asked = [clients.submit(ask, number) for number in range(CLIENTS)]
        left = CLIENTS

        def is_over() -> bool:
            nonlocal left
            left -= done.acquire(blocking=False)
            return not left

        server.serve(until=is_over)
        replies = [each.result() for each in asked]

    refused = [reply.refusal for reply in replies if reply.refusal is not None]
    assert len(refused) == SHARED - 1
    assert all("there is a query shared already" in text for text in refused)
    assert set(require_record(folder).staying) == {"shared", *(f"own{n}" for n in range(SHARED, CLIENTS))}
    added = [name for change in changes for name in change.added]
    assert len(added) == len(set(added)) == CLIENTS - SHARED + 1
    assert folder.names(REQUESTS, ".json") == folder.names(REPLIES, ".json") == []
