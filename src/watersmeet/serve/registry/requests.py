"""What clients ask of a ring, and what its server replies: files, so that both may come and go.

A request stays until it has its reply, and a reply is written before its request goes: whenever either side
is killed, what is left says what is still to be done.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.serve.registry.folder import RegistryFolder

REQUESTS = "requests"
REPLIES = "replies"
POLL_S = 0.1
UNREAD_S = 3600  # a reply that nobody has read by then is thrown away


@dataclass(frozen=True)
class Submit:
    """Add these queries, (name, SQL), all of them or none."""

    queries: tuple[tuple[str, str], ...]

    def to_json(self) -> dict[str, Any]:
        return {"do": "submit", "queries": [{"name": name, "sql": sql} for name, sql in self.queries]}


@dataclass(frozen=True)
class Drop:
    """Take these queries away, all of them or none."""

    names: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"do": "drop", "names": list(self.names)}


Request = Submit | Drop


@dataclass(frozen=True)
class Reply:
    """What became of a request: from which batch on the change is in force, or why it was refused."""

    batch: int | None = None
    refusal: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"batch": self.batch, "refusal": self.refusal}


def send(folder: RegistryFolder, request: Request) -> str:
    """Leaves a request for the server, this one or the next; its id."""
    # Ids are in the order of time, as one request may build on another.
    request_id = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    folder.write(f"{REQUESTS}/{request_id}.json", json.dumps(request.to_json()))
    return request_id


def await_reply(folder: RegistryFolder, request_id: str) -> Reply:
    """The reply to a request, when it comes; refuses to wait where no server lives."""
    while True:
        served = folder.is_served()
        text = folder.read(f"{REPLIES}/{request_id}.json")
        if text is not None:
            # In this order: a request without a reply would be handled again.
            folder.remove(f"{REQUESTS}/{request_id}.json")
            folder.remove(f"{REPLIES}/{request_id}.json")
            return Reply(**json.loads(text))
        if not served:
            raise ConfigurationError(
                f"no server runs on {folder.path}. The request waits there, and the next "
                f"watersmeet serve {folder.path} takes it"
            )
        time.sleep(POLL_S)


@dataclass(frozen=True)
class Mailbox:
    """The server's side."""

    folder: RegistryFolder

    def pending(self) -> list[str]:
        """The ids of requests without a reply, in order; those that have one are taken away."""
        waiting = []
        for request_id in self.folder.names(REQUESTS, ".json"):
            if (self.folder.path / REPLIES / f"{request_id}.json").exists():
                self.folder.remove(f"{REQUESTS}/{request_id}.json")
            else:
                waiting.append(request_id)
        return waiting

    def open(self, request_id: str) -> Request | None:
        """A request; None where it is gone; refuses what cannot be understood."""
        text = self.folder.read(f"{REQUESTS}/{request_id}.json")
        if text is None:
            return None
        try:
            return _parse(json.loads(text))
        except (ValueError, KeyError, TypeError):
            raise ConfigurationError("the request cannot be read: send it again") from None

    def reply(self, request_id: str, reply: Reply | Mapping[str, Any]) -> None:
        """Says what became of a request, and takes it away."""
        fields = reply.to_json() if isinstance(reply, Reply) else dict(reply)
        self.folder.write(f"{REPLIES}/{request_id}.json", json.dumps(fields))
        self.folder.remove(f"{REQUESTS}/{request_id}.json")

    def sweep(self) -> None:
        """Throws away replies that nobody reads."""
        for request_id in self.folder.names(REPLIES, ".json"):
            name = f"{REPLIES}/{request_id}.json"
            if (self.folder.age_s(name) or 0) > UNREAD_S:
                self.folder.remove(name)


def _parse(fields: Mapping[str, Any]) -> Request:
    if fields["do"] == "submit":
        queries: Sequence[Mapping[str, str]] = fields["queries"]
        return Submit(tuple((str(query["name"]), str(query["sql"])) for query in queries))
    if fields["do"] == "drop":
        return Drop(tuple(str(name) for name in fields["names"]))
    raise ValueError(fields["do"])
