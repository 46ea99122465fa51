"""What is in a file of a link: chunks of rows by the send they take, and one row of marks.

    source  'a>3.0'     body  an Arrow chunk: lifetimes, key columns, payload
    source  ''          body  JSON: the plan's fingerprint, the file's number and the one before, the marks

A file is what one micro-batch of the sender puts on the link. One is written only if there is something to
say: rows, or progress. It appears as a whole, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.kernel import route_rows
from watersmeet.plan.sites.site_dataflow import SiteDataflow
from watersmeet.query import BEGINNING
from watersmeet.query.shared_dataflow import Relation
from watersmeet.spark.exchange.packed_chunk import PackedChunk, decode
from watersmeet.spark.multiquery.messages import LevelRows
from watersmeet.spark.sites.messages import SITE_MESSAGES, MarksOfLink, SiteMessage

SOURCE, BODY = "source", "body"
MARKS = ""  # the source of the row of marks
SCHEMA = pa.schema([(SOURCE, pa.string()), (BODY, pa.binary())])

Progress = Mapping[str, int]  # by origin


@dataclass(frozen=True)
class Marks:
    """The marks of a file."""

    plan: str
    number: int
    previous: int
    marks: Progress

    def body(self) -> bytes:
        return json.dumps({**vars(self), "marks": dict(self.marks)}).encode()


def marks_for(site: object, target: str, progress: Progress) -> dict[str, int]:
    """How far each origin that sends to a site has come, given the progress of what arrives here.

    Semijoin plans have marks of their own, in their mail.
    """
    if not isinstance(site, SiteDataflow):
        return {}
    origins = dict.fromkeys(send.origin for send in site.program.sends if send.target == target)
    return {origin: min(progress.get(leaf, BEGINNING) for leaf in site.leaves[origin]) for origin in origins}


def read_marks(body: bytes) -> dict[str, Any]:
    """A row of marks as it was written."""
    fields: dict[str, Any] = json.loads(body)
    return fields


def refuse_plan(link: str, theirs: str, site: str, ours: str) -> DataError:
    """The refusal of rows that are sent by another plan."""
    return DataError(
        f"{link} sends by plan {theirs}, and {site} runs plan {ours}: "
        "both must be computed from the same file and the same statistics. Give both the same, and "
        "start them anew with other checkpoints and links"
    )


@dataclass(frozen=True)
class UnpackLink:
    """Makes messages of a link's rows; called by `mapInArrow` at the site they come to."""

    link: str  # the site they come from
    site: str
    plan: str
    ports: Mapping[str, Relation]  # by the name of the send
    labels: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found: list[SiteMessage] = []
            for source, body in zip(batch.column(SOURCE).to_pylist(), batch.column(BODY), strict=True):
                if source == MARKS:
                    found += self._marks(body.as_py())
                else:
                    found += self._rows(source, decode(body.as_buffer()))
            if found:
                yield SITE_MESSAGES.to_arrow(found)

    def _marks(self, body: bytes) -> Iterator[SiteMessage]:
        fields = read_marks(body)
        if fields["plan"] != self.plan:
            raise refuse_plan(self.link, fields["plan"], self.site, self.plan)
        text = json.dumps(fields["marks"]).encode()
        for label in self.labels:
            yield MarksOfLink(label, self.link, fields["number"], fields["previous"], text)

    def _rows(self, source: str, rows: pa.RecordBatch) -> Iterator[SiteMessage]:
        port = self.ports.get(source)
        if port is None:
            raise DataError(f"{self.link} sends {source}, which nothing at {self.site} awaits")
        for bucket, part in route_rows(rows, port.route, len(self.labels)):
            yield LevelRows(self.labels[bucket], port.level, port.name, PackedChunk(part))
