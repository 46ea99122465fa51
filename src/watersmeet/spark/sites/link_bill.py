"""What has crossed a link, counted from its own files: the bill, beside what the plan has predicted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel import TS
from watersmeet.plan.sites.site_program import Send
from watersmeet.spark.exchange.packed_chunk import decode
from watersmeet.spark.sites.link_file import BODY, MARKS, SOURCE


@dataclass(frozen=True)
class Crossed:
    """What has crossed one link.

    `priced_bytes` are the rows at the sizes that the plan's statistics give them, as the simulator counts;
    `chunk_bytes` are the chunks as they are, and marks count apart.
    """

    rows: Mapping[str, int] = field(default_factory=dict)  # by send
    priced_bytes: float = 0.0
    chunk_bytes: int = 0
    mark_bytes: int = 0
    files: int = 0
    first_us: int | None = None  # the earliest and the latest event time of a row
    last_us: int | None = None

    @property
    def total_rows(self) -> int:
        return sum(self.rows.values())


def crossed(sends: Iterable[Send], files: Iterable[pa.RecordBatch]) -> Crossed:
    """What these files of a link hold."""
    sizes = {send.name: send.tuple_bytes for send in sends}
    rows: dict[str, int] = {}
    chunks = marks = count = 0
    times: list[int] = []
    for file in files:
        count += 1
        for source, body in zip(file.column(SOURCE).to_pylist(), file.column(BODY), strict=True):
            if source == MARKS:
                marks += len(body.as_buffer())
            else:
                chunks += len(body.as_buffer())
                chunk = decode(body.as_buffer())
                rows[source] = rows.get(source, 0) + chunk.num_rows
                times += pc.min_max(chunk.column(TS)).as_py().values()
    priced = sum(sizes[source] * number for source, number in rows.items())
    return Crossed(rows, priced, chunks, marks, count, min(times, default=None), max(times, default=None))
