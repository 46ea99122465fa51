"""What clients request of a server, and what it replies: files, so that both may come and go.

A request stays until it has its reply, and the reply is written before the request is removed. Whenever
either side is killed, the files that are left say what is still to be done.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass

import msgspec

from watersmeet.errors import ConfigurationError
from watersmeet.serve.registry.folder import RegistryFolder

REQUESTS = "requests"
REPLIES = "replies"
POLL_S = 0.1
MOST_BYTES = 64_000_000
_ID = re.compile(r"[\w-]{1,64}")  # any other could not name a reply
UNREAD_S = 3600  # a reply that nobody has read by then is removed


class Submit(msgspec.Struct, frozen=True, tag_field="do", tag="submit"):
    """Add these queries, (name, SQL), all of them or none; with `replace` in place of those so called."""

    queries: tuple[tuple[str, str], ...]
    replace: bool = False


class Drop(msgspec.Struct, frozen=True, tag_field="do", tag="drop"):
    """Remove these queries, all of them or none."""

    names: tuple[str, ...]


class Resume(msgspec.Struct, frozen=True, tag_field="do", tag="resume"):
    """Let these queries, which have failed, go on, all of them or none."""

    names: tuple[str, ...]


Request = Submit | Drop | Resume


class Reply(msgspec.Struct, frozen=True):
    """What became of a request: the batch from which the change is in force, or why it was refused."""

    batch: int | None = None
    refusal: str | None = None


def send(folder: RegistryFolder, request: Request) -> str:
    """Leaves a request for the server, this one or the next; returns its id."""
    # Ids are in the order of time, as one request may build on another.
    request_id = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    folder.write(_request_file(request_id), msgspec.json.encode(request).decode())
    return request_id


def await_reply(folder: RegistryFolder, request_id: str) -> Reply:
    """The reply to a request, when it comes; refuses to wait where no server runs."""
    while True:
        served = folder.is_served()
        text = folder.read(_reply_file(request_id))
        if text is not None:
            # In this order: a request without a reply would be handled again.
            folder.remove(_request_file(request_id))
            folder.remove(_reply_file(request_id))
            return msgspec.json.decode(text, type=Reply)
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
        """The ids of requests without a reply, in order; requests that have one are removed.

        Files with names that no client gives are left alone.
        """
        waiting = []
        for request_id in filter(_ID.fullmatch, self.folder.names(REQUESTS, ".json")):
            if (self.folder.path / _reply_file(request_id)).exists():
                self.folder.remove(_request_file(request_id))
            else:
                waiting.append(request_id)
        return waiting

    def open(self, request_id: str) -> Request | None:
        """A request; None where it is gone; refuses one that cannot be understood."""
        if (self.folder.size(_request_file(request_id)) or 0) > MOST_BYTES:
            raise ConfigurationError(
                f"the request is longer than {MOST_BYTES:,} bytes: submit the queries in several"
            )
        text = self.folder.read(_request_file(request_id))
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=Submit | Drop | Resume)
        except (msgspec.MsgspecError, RecursionError):
            raise ConfigurationError("the request cannot be read: send it again") from None

    def reply(self, request_id: str, reply: Reply) -> None:
        """Says what became of a request, and removes it."""
        self.folder.write(_reply_file(request_id), msgspec.json.encode(reply).decode())
        self.folder.remove(_request_file(request_id))

    def sweep(self) -> None:
        """Removes replies that nobody reads."""
        for request_id in self.folder.names(REPLIES, ".json"):
            if (self.folder.age_s(_reply_file(request_id)) or 0) > UNREAD_S:
                self.folder.remove(_reply_file(request_id))


def _request_file(request_id: str) -> str:
    return f"{REQUESTS}/{request_id}.json"


def _reply_file(request_id: str) -> str:
    return f"{REPLIES}/{request_id}.json"
