"""Queries beside a shared dataflow over the files of a case: what their own batches took, by Spark's logs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.spark.pipelines import Case
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.query import Query

STREAMS = ("s1", "s2", "s3")


def offsets(checkpoint: Path, batch: int) -> list[int]:
    """The newest file of each source in a batch, by the source's own count; -1 if it has none yet."""
    lines = (checkpoint / "spark" / "offsets" / str(batch)).read_text().splitlines()[2:]
    return [-1 if line == "-" else int(json.loads(line)["logOffset"]) for line in lines]


def own_batches(case: Case, flow: Path, number: int, since: int, query: Query) -> list[MicroBatch]:
    """What each batch of a query beside the dataflow brought, from the dataflow's batch `since` on."""
    checkpoint = flow / "beside" / str(number)
    names = [reading.stream.name for reading in query.readings]
    seen = dict.fromkeys(STREAMS, 0)
    if since > 0:
        seen = dict(zip(STREAMS, offsets(flow, since - 1), strict=True))
    logged = sorted(int(path.name) for path in (checkpoint / "spark" / "commits").glob("[0-9]*"))
    assert logged[0] == 0
    before = dict.fromkeys(names, 0 if since > 0 else -1)
    found: list[MicroBatch] = []
    for batch in logged[1 if since > 0 else 0 :]:
        now = dict(zip(names, _at_least(offsets(checkpoint, batch), before, names), strict=True))
        found.append(
            {name: _rows(case, name, seen[name] + before[name] + 1, seen[name] + now[name]) for name in now}
        )
        before = now
    return found


def _at_least(found: Sequence[int], before: dict[str, int], names: Sequence[str]) -> list[int]:
    return [max(now, before[name]) for name, now in zip(names, found, strict=False)]


def _rows(case: Case, name: str, first: int, last: int) -> list:  # type: ignore[type-arg]
    return [row for number in range(first, last + 1) for row in case.batches[number].get(name, ())]
