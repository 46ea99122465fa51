"""A lease on a folder, where there are no locks: at most one holder goes on, and a dead one is replaced.

The folder holds a claim for each term, and signs of life of its holder:

    claim-7            who holds term 7, by a token of its own; created by whoever takes it, never changed
    beat-7-3f9a-12     the holder of term 7 has renewed its lease for the twelfth time
    free-7             the holder of term 7 has given it back

- Only the newest term counts. It is taken by creating its claim, which the file system grants to one alone,
  and by finding it still the newest afterwards.
- Whoever finds the newest term held looks on. If the beat changes, the holder lives. If nothing has changed
  for `PATIENCE` renewals **on the onlooker's own clock**, it is dead, and the next term may be claimed.
  Clocks of two machines are never compared; they need only run about equally fast.
- A holder that has been overtaken finds a newer claim, or another's token in its own, at its next renewal or
  check: the lease is lost for good. So it is if the holder could not renew for `PATIENCE` - 1 renewals on
  its own clock, since by then another may be about to take over.

What remains: between a check and what the holder does next it may be suspended for any time. Whatever it
writes must therefore be harmless beside the work of its successor; see docs/operations.md.

    one holder:  claim-1, beat-1-a-0, beat-1-a-1, ... free-1
    a crash:     claim-1, beat-1-a-0 | nothing for 6 renewals | claim-2, beat-2-b-0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from watersmeet.errors import WatersmeetError

RENEW_S = 5.0
PATIENCE = 6  # renewals without a sign of life after which a holder is dead


class LeaseFiles(Protocol):
    """The folder of a lease; what fails is an OSError."""

    def names(self, folder: str) -> list[str]:
        """The names of what a folder holds; none if there is no such folder."""

    def read(self, path: str) -> str | None:
        """The text of a file; None if there is none."""

    def create(self, path: str, text: str) -> bool:
        """Writes a new file; False, and nothing is changed, if there is one already."""

    def remove(self, path: str) -> None:
        """Removes a file; nothing if there is none."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lease or a lock; `token` is its own for each holding."""

    host: str
    pid: int
    since: str
    token: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_text(text: str | None) -> Holder | None:
        """The holder that a text describes; None if it describes none."""
        try:
            return msgspec.json.decode(text or "", type=Holder)
        except msgspec.DecodeError:
            return None


class LeaseLostError(WatersmeetError):
    """Another holder has taken over, or may be about to."""


@dataclass(frozen=True)
class Lease:
    """A lease that is held: its term, and when it was last renewed, by the holder's own clock."""

    folder: str
    term: int
    holder: Holder
    beat: int
    renewed_at: float

    def overdue(self, now: float) -> str:
        """Why another may be about to take over, if it has been too long; else nothing."""
        silent_s = now - self.renewed_at
        too_long = silent_s >= (PATIENCE - 1) * RENEW_S
        return f"it could not be renewed for {silent_s:.0f} seconds" if too_long else ""


@dataclass(frozen=True)
class Seen:
    """What an onlooker found of the newest term, and since when it has not changed."""

    signs: frozenset[str]
    at: float
    holder: Holder | None
    is_alive: bool = False  # whether there has been a sign of life since the onlooker began


def take(
    files: LeaseFiles, folder: str, me: Holder, seen: Seen | None, clock: Callable[[], float]
) -> Lease | Seen:
    """The lease, if it is free or its holder is dead; else what was seen, to be handed in again later."""
    began = clock()
    names = frozenset(files.names(folder))
    looked = clock()  # on a slow file system long after: silence counts from the end of one look to the next
    term = _newest(names)
    if term and f"free-{term}" not in names:
        holder = Holder.from_text(files.read(f"{folder}/claim-{term}"))
        signs = frozenset(each for each in names if each.startswith((f"claim-{term}", f"beat-{term}-")))
        if seen is None or seen.signs != signs:
            return Seen(signs, looked, holder, is_alive=seen is not None)
        if began - seen.at < PATIENCE * RENEW_S:
            return replace(seen, holder=holder, is_alive=False)
    claimed = term + 1
    if not files.create(f"{folder}/claim-{claimed}", me.to_text()) or not _holds(files, folder, claimed, me):
        return Seen(frozenset(), looked, None)  # another was faster: look again
    lease = Lease(folder, claimed, me, 0, began)
    files.create(_beat(lease), "")
    for name in names:  # of earlier terms
        files.remove(f"{folder}/{name}")
    return lease


def renew(files: LeaseFiles, lease: Lease, now: float) -> Lease:
    """The lease with one more sign of life; raises if it is lost."""
    check(files, lease, now)
    renewed = replace(lease, beat=lease.beat + 1, renewed_at=now)
    while not files.create(_beat(renewed), ""):  # a try that failed halfway has left it: that is no news
        renewed = replace(renewed, beat=renewed.beat + 1)
    files.remove(_beat(lease))
    return renewed


def check(files: LeaseFiles, lease: Lease, now: float) -> None:
    """Raises if the lease is lost."""
    if overdue := lease.overdue(now):
        raise LeaseLostError(overdue)
    if not _holds(files, lease.folder, lease.term, lease.holder):
        newest = _newest(frozenset(files.names(lease.folder)))
        other = Holder.from_text(files.read(f"{lease.folder}/claim-{newest}"))
        raise LeaseLostError(f"it was taken over by {other}")


def release(files: LeaseFiles, lease: Lease) -> None:
    """Gives the lease back, so that the next one need not wait; nothing happens if it is lost."""
    if _holds(files, lease.folder, lease.term, lease.holder):
        files.create(f"{lease.folder}/free-{lease.term}", "")


def _holds(files: LeaseFiles, folder: str, term: int, me: Holder) -> bool:
    """Whether the newest term is this one, and claimed by this holder."""
    if _newest(frozenset(files.names(folder))) != term:
        return False
    # Where creation is not exclusive, as on some object stores, the last to claim has it.
    return Holder.from_text(files.read(f"{folder}/claim-{term}")) == me


def _newest(names: frozenset[str]) -> int:
    """The newest term that was claimed, 0 if none was."""
    return max((int(name.removeprefix("claim-")) for name in names if name.startswith("claim-")), default=0)


def _beat(lease: Lease) -> str:
    return f"{lease.folder}/beat-{lease.term}-{lease.holder.token}-{lease.beat}"
