"""What has come over a link that repeats itself: each piece counts once, marks once all before them is there.

A topic of Kafka may hold a message twice, as a batch that is done again is sent again. So whatever a batch
of the sender puts there goes in *pieces* with names: what it is from, the sender's bucket, a number. A batch
that is done again makes the same pieces, with the same rows in each. The batch's *end* lists the pieces'
groups, each of which says how many pieces it has, and names the batch before. Messages come in any order.

- A piece counts when it comes for the first time; rows need no order.
- A batch is whole once its end and all pieces of its groups are there. Its marks count once it and all
  batches before it are whole.
- What comes again of a batch whose marks count is a repeat: its number says so. So no more is remembered than
  the pieces of batches that are not whole, and which plan the newest batches had.

    piece a>0.1 of bucket 2 of batch 7, again; end of 7 after 5: waits for 5; end of 5: marks of 5, then of 7
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import DataError
from watersmeet.kernel.progress.link_marks import FIRST

REMEMBERED = 50  # batches whose plan is known after their marks count

Group = tuple[str, int]  # what rows are from, the sender's bucket


@dataclass(frozen=True)
class LinkBatch:
    """A batch of the sender: who sends, its number, and what tells it from another batch of this number."""

    link: str
    writer: str
    number: int
    plan: str


@dataclass
class _Open:
    """A batch whose marks do not count yet."""

    plan: str
    pieces: dict[Group, tuple[int, set[int]]] = field(default_factory=dict)  # how many, and those that came
    end: tuple[int, Mapping[str, int], tuple[Group, ...]] | None = None

    @property
    def is_whole(self) -> bool:
        if self.end is None:
            return False
        empty: tuple[int, set[int]] = (1, set())
        return all(len(came) == of for of, came in (self.pieces.get(group, empty) for group in self.end[2]))


@dataclass
class _Link:
    writer: str
    last: int = FIRST  # the newest batch whose marks count
    open: dict[int, _Open] = field(default_factory=dict)
    plans: dict[int, str] = field(default_factory=dict)  # of the newest batches whose marks count


@dataclass
class LinkPieces:
    """Follows the links into a site that may repeat themselves."""

    links: dict[str, _Link] = field(default_factory=dict)

    def take(self, batch: LinkBatch, group: Group, piece: int, of: int) -> bool:
        """Notes a piece that was read; whether it has come for the first time."""
        opened = self._open(batch)
        if opened is None:
            return False
        _, came = opened.pieces.setdefault(group, (of, set()))
        if piece in came:
            return False
        came.add(piece)
        return True

    def end(self, batch: LinkBatch, previous: int, marks: Mapping[str, int], groups: Sequence[Group]) -> None:
        """Notes the end of a batch, which may come before its pieces, and again."""
        opened = self._open(batch)
        if opened is not None:
            opened.end = (previous, marks, tuple(groups))

    def due(self) -> dict[str, int]:
        """The marks that count by now and did not before, by origin."""
        found: dict[str, int] = {}
        for link in self.links.values():
            while (number := self._next(link)) is not None:
                batch = link.open.pop(number)
                assert batch.end is not None
                link.last = number
                link.plans[number] = batch.plan
                for old in sorted(link.plans)[:-REMEMBERED]:
                    del link.plans[old]
                for origin, mark in batch.end[1].items():
                    found[origin] = max(mark, found.get(origin, mark))
        return found

    def snapshot(self) -> dict[str, Any]:
        """What to persist, fit for JSON."""
        return {name: _link_to_json(link) for name, link in self.links.items()}

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any]) -> LinkPieces:
        return cls({name: _link_from_json(fields) for name, fields in snapshot.items()})

    def _open(self, batch: LinkBatch) -> _Open | None:
        """The batch among those whose marks do not count yet; None if it is a repeat of an older one."""
        link = self.links.setdefault(batch.link, _Link(batch.writer))
        if link.writer != batch.writer:
            raise DataError(
                f"the link from {batch.link} brings rows of two runs, {link.writer} and {batch.writer}. "
                "Start all sites anew, with other checkpoints and links"
            )
        if batch.number <= link.last:
            _refuse_other_plan(batch, link.plans.get(batch.number, batch.plan))
            return None
        opened = link.open.setdefault(batch.number, _Open(batch.plan))
        _refuse_other_plan(batch, opened.plan)
        return opened

    @staticmethod
    def _next(link: _Link) -> int | None:
        """The whole batch that comes after the last one whose marks count."""
        for number, batch in link.open.items():
            if batch.end is not None and batch.end[0] == link.last and batch.is_whole:
                return number
        return None


def _refuse_other_plan(batch: LinkBatch, known: str) -> None:
    if known != batch.plan:
        raise DataError(
            f"the link from {batch.link} brings another batch {batch.number} than before, as if an older "
            f"copy of the checkpoint of {batch.link} had been put back. Put the newer one back, or start all "
            "sites anew with other checkpoints and links"
        )


def _link_to_json(link: _Link) -> dict[str, Any]:
    opened = []
    for number, batch in link.open.items():
        pieces = [[*group, of, sorted(came)] for group, (of, came) in batch.pieces.items()]
        end = None
        if batch.end is not None:
            previous, marks, groups = batch.end
            end = [previous, dict(marks), [list(group) for group in groups]]
        opened.append([number, batch.plan, pieces, end])
    plans = [[number, plan] for number, plan in link.plans.items()]
    return {"writer": link.writer, "last": link.last, "open": opened, "plans": plans}


def _link_from_json(fields: Mapping[str, Any]) -> _Link:
    link = _Link(fields["writer"], fields["last"])
    link.plans = dict(fields["plans"])
    for number, plan, pieces, end in fields["open"]:
        batch = _Open(plan)
        for source, bucket, of, came in pieces:
            batch.pieces[source, bucket] = (of, set(came))
        if end is not None:
            previous, marks, groups = end
            batch.end = (previous, marks, tuple((source, bucket) for source, bucket in groups))
        link.open[number] = batch
    return link
