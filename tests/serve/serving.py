"""Servers over an engine that only counts, for a few rounds."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.serve.fake_engine import FakeEngine
from tests.serve.registry.dataflows import CHAIN, PLANNER
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import require_record
from watersmeet.serve.registry.requests import REPLIES, Reply, Submit
from watersmeet.serve.server import Change, Server


def new_server(folder: RegistryFolder, engine: FakeEngine) -> Server:
    return Server(folder=folder, record=require_record(folder), engine=engine, planner=PLANNER)


def serve(
    folder: RegistryFolder,
    engine: FakeEngine,
    rounds: int = 4,
    each: Callable[[int], object] = lambda n: None,
) -> list[Change]:
    """Serves for a few rounds, with something done in `each`; the changes that were made."""
    changes: list[Change] = []
    server = new_server(folder, engine)
    server.on_change = changes.append
    left = iter(range(rounds))

    def is_over() -> bool:
        number = next(left, None)
        if number is not None:
            each(number)
        return number is None

    server.serve(until=is_over)
    return changes


def replies(folder: RegistryFolder) -> dict[str, Reply]:
    names = folder.names(REPLIES, ".json")
    return {name: Reply(**json.loads(folder.read(f"{REPLIES}/{name}.json") or "")) for name in names}


def one(name: str, sql: str = CHAIN) -> Submit:
    return Submit(((name, sql),))
