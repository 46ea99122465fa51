"""Declared sites and the links between them: where a part of a query runs, and what joins the parts."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.query.stream import Connector


@dataclass(frozen=True)
class Site:
    """A place where streams arrive, with a Spark of its own; without a master, the command's."""

    name: str
    master: str | None = None

    def pretty(self) -> str:
        return f"{self.name}{f' ({self.master})' if self.master else ''}"


@dataclass(frozen=True)
class Link:
    """One way between two sites: a durable log that the one writes and the other reads."""

    source: str
    target: str
    connector: Connector

    def pretty(self) -> str:
        return f"{self.source} to {self.target}: {self.connector.pretty()}"
