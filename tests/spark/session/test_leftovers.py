"""What Spark leaves in the JVM of a start of a query is found and ended, and nothing else."""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from watersmeet.spark.session.leftovers import forgotten_descriptors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are read off /proc")


@dataclass(frozen=True)
class Waiting:
    """A selector that waits for a socket, as Java makes it: with a counter to wake it up."""

    selector: int
    counter: int
    socket: int
    path: Path

    @property
    def descriptors(self) -> set[int]:
        return {self.selector, self.counter, self.socket}


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))  # pytest's paths are too long for a socket
        path = folder / ".one.sock"
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(str(path))
        server.listen()
        counter = os.eventfd(0)
        stack.callback(os.close, counter)
        selector = stack.enter_context(select.epoll())
        selector.register(counter, select.EPOLLIN)
        selector.register(server, select.EPOLLIN)
        yield Waiting(selector.fileno(), counter, server.fileno(), path)


def test_a_selector_whose_socket_nobody_can_reach_is_forgotten(waiting: Waiting) -> None:
    waiting.path.unlink()
    assert set(forgotten_descriptors(os.getpid())) == waiting.descriptors


def test_a_socket_that_can_be_reached_is_in_use(waiting: Waiting) -> None:
    assert not forgotten_descriptors(os.getpid())


def test_a_selector_that_waits_for_more_is_in_use(waiting: Waiting) -> None:
    waiting.path.unlink()
    one, other = socket.socketpair()
    with one, other, select.epoll.fromfd(os.dup(waiting.selector)) as selector:
        selector.register(one, select.EPOLLIN)
        assert not forgotten_descriptors(os.getpid())


def test_a_socket_without_a_file_that_no_selector_waits_for_is_in_use() -> None:
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/.one.sock")
        server.listen()
        Path(folder, ".one.sock").unlink()
        assert not forgotten_descriptors(os.getpid())


def test_where_there_is_no_such_process_nothing_is_found() -> None:
    assert forgotten_descriptors(2**22 + 1) == []
