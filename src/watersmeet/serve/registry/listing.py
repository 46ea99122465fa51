"""The queries of a shared dataflow as a table: since when, into which sink, what they share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import require_record
from watersmeet.serve.registry.status import read_status

_HEAD = ("name", "since batch", "sink", "joins", "shared")


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One query: how many `joins` it has, and how many of them it shares with others.

    A query that has failed gives no answers from the batch `failed_in` on; `failed_at` is when that was. One
    that runs `beside` the dataflow, for the reason named, has batches of its own: `progress` is that of the
    newest, and `failed_in` is one of them.
    """

    name: str
    since: int
    sink: str | None
    joins: int
    shared: int
    sql: str
    failed_in: int | None = None
    failed_at: str | None = None
    failure: str | None = None
    beside: str | None = None
    progress: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A shared dataflow and its queries."""

    dataflow: str
    folder: Path
    is_served: bool
    batch: int | None  # the last one the server reported
    waiting: int  # requests
    failure: str | None
    side_failures: dict[str, str]  # of queries beside the dataflow, by name
    queries: tuple[Listed, ...]

    def pretty(self) -> str:
        state = "served" if self.is_served else "not served now"
        facts = [f"shared dataflow {self.dataflow}", state]
        facts += [f"batch {self.batch}"] if self.batch is not None else []
        facts += [f"{self.waiting} requests wait"] if self.waiting else []
        lines = [", ".join(facts)]
        if self.failure and not self.is_served:
            lines.append(f"it failed: {self.failure}")
        lines += [f"{name} has failed: {said}" for name, said in self.side_failures.items()]
        if not self.queries:
            return "\n".join([*lines, "no query"])
        rows = [_HEAD, *(_cells(query) for query in self.queries)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
        for row in rows:
            cells = (_pad(cell, column, widths[column]) for column, cell in enumerate(row))
            lines.append("  ".join(cells).rstrip())
        for query in self.queries:
            if query.beside is not None:
                at = f", batch {query.progress['batch_id']} of its own" if query.progress else ""
                lines.append(f"{query.name} runs beside the dataflow{at}: {query.beside}")
        failed = [query for query in self.queries if query.failure is not None]
        for query in failed:
            own = "" if query.beside is None else " of its own"
            lines.append(
                f"{query.name} has failed in batch {query.failed_in}{own}, {query.failed_at}: {query.failure}"
            )
        if failed:
            lines.append(
                "Without answers from those batches on. To let them go on: watersmeet resume "
                f"{self.folder} NAME, or watersmeet submit --replace"
            )
        return "\n".join(lines)

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "folder": str(self.folder)}, indent=2, ensure_ascii=False)


def list_queries(folder: RegistryFolder) -> Listing:
    """What a folder says about the queries of its dataflow, whether it is served or not."""
    is_served = folder.is_served()
    record = require_record(folder)
    status = read_status(folder)
    staying = sorted(record.staying.values(), key=lambda query: query.number)
    joins = _joins_by_query(record.dataflow, [query.number for query in staying]) if record.dataflow else {}
    users = Counter(join for own in joins.values() for join in own)
    listed = tuple(
        Listed(
            name=query.name,
            since=query.since,
            sink=query.sink,
            joins=len(joins.get(query.number, ())),
            shared=sum(users[join] > 1 for join in joins.get(query.number, ())),
            sql=query.sql,
            failed_in=query.failure.since if query.failure else None,
            failed_at=query.failure.at if query.failure else None,
            failure=query.failure.reason if query.failure else None,
            beside=query.beside,
            progress=status.beside.get(query.name) if status and query.beside is not None else None,
        )
        for query in staying
    )
    progress = status.progress if status else None
    return Listing(
        dataflow=record.id,
        folder=folder.path,
        is_served=is_served,
        batch=progress["batch_id"] if progress else None,
        waiting=len(folder.names("requests", ".json")),
        failure=status.failure if status else None,
        side_failures=dict(status.side_failures) if status else {},
        queries=listed,
    )


def _joins_by_query(dataflow: SharedDataflow, numbers: Iterable[int]) -> dict[int, frozenset[str]]:
    """The joins that each query needs."""
    members = {join.name: join.members for join in dataflow.joins}
    sources = {relation.name: relation.source for relation in dataflow.relations}
    needed: dict[str, frozenset[str]] = {}

    def below(join: str) -> frozenset[str]:
        if join not in needed:
            earlier = (sources[member] for member in members[join])
            parts = [below(source) for source in earlier if source in members]
            needed[join] = frozenset({join}).union(*parts)
        return needed[join]

    wanted = set(numbers)
    return {tail.number: below(tail.join) for tail in dataflow.tails if tail.number in wanted}


def _cells(query: Listed) -> tuple[str, ...]:
    joins = ("-", "-") if query.beside is not None else (str(query.joins), str(query.shared))
    return (query.name, str(query.since), query.sink or "console", *joins)


def _pad(cell: str, column: int, width: int) -> str:
    return cell.ljust(width) if _HEAD[column] in ("name", "sink") else cell.rjust(width)
