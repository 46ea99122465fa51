"""One run at a time on a checkpoint: a lock that no crash leaves behind.

On a disk of this machine it is a lock of the operating system's on the file `run.lock`, which ends with the
process that holds it. That process is Spark's JVM, since it is the JVM that writes: where the Python program
alone is killed, the JVM goes on for a moment, and the next run waits for its end. On other file systems, and
on disks without locks, it is a lease in the folder `lease.lock` (see `lease.py`), renewed by a thread.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.spark.jobs import lease as leases
from watersmeet.spark.jobs.lease import Holder, Lease, LeaseFiles, LeaseLostError, Seen
from watersmeet.spark.storage.folder import Folder
from watersmeet.spark.storage.hadoop_tree import open_tree
from watersmeet.spark.storage.paths import local_path

LOCK = "run.lock"
LEASE = "lease.lock"
DYING_S = 20.0  # for the JVM of a killed program to end
POLL_S = 0.1

# Locks held by this process, by path. One that nobody refers to would be closed while its queries may go on.
# And a process that opens a locked file again loses its lock when it closes that, so it looks here first.
_HELD: dict[str, FileLock] = {}


class RunLock(Protocol):
    """The right to run on a checkpoint."""

    def check(self) -> None:
        """Raises if another run has taken over."""

    def when_lost(self, act: Callable[[], None]) -> None:
        """Says what to do, in a thread of the lock's, when another run takes over."""

    def release(self) -> None:
        """Lets the next run in; may be called again."""


def hold_checkpoint(spark: SparkSession, folder: str) -> RunLock:
    """The right to run on a checkpoint, until it is released or this program ends; refuses a second run."""
    me = Holder(
        socket.gethostname(), os.getpid(), f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", secrets.token_hex(4)
    )
    try:
        Folder(spark, folder).make("")
        if (local := local_path(folder)) is not None and (lock := _lock_file(spark, local / LOCK, me)):
            return lock
        return KeptLease.take(open_tree(spark, folder), me, folder)
    except OSError as error:
        said = str(error.strerror or error)
        raise ConfigurationError(f"the checkpoint {folder} cannot be written: {said}") from None


@contextmanager
def held_checkpoint(spark: SparkSession, folder: str) -> Iterator[RunLock]:
    """While open, no other run uses the checkpoint."""
    lock = hold_checkpoint(spark, folder)
    try:
        yield lock
    finally:
        lock.release()


def in_use(folder: str | Path, holder: Holder | None) -> ConfigurationError:
    """The refusal of a second run."""
    who = "another run" if holder is None else str(holder)
    if holder is not None and (holder.host, holder.pid) == (socket.gethostname(), os.getpid()):
        who = f"this very process ({holder.pid}), since {holder.since}"
    return ConfigurationError(
        f"the checkpoint {folder} is in use by {who}. Only one run may use a checkpoint at a time: stop that "
        "one first, or use another checkpoint"
    )


@dataclass(eq=False)
class FileLock:
    """A lock of the operating system's, held by Spark's JVM."""

    path: str
    holder: Holder
    file: Any  # java.io.RandomAccessFile: closing it, or the end of the JVM, unlocks

    def check(self) -> None:
        """It cannot be lost."""

    def when_lost(self, act: Callable[[], None]) -> None:
        """It cannot be lost."""

    def release(self) -> None:
        if _HELD.get(self.path) is self:
            del _HELD[self.path]
            with suppress(Py4JJavaError, OSError):  # where the JVM is gone, so is the lock
                self.file.close()


def _lock_file(spark: SparkSession, path: Path, me: Holder) -> FileLock | None:
    """The lock, or None where the disk has no locks; waits for the JVM of a program that was killed."""
    jvm: Any = spark.sparkContext._jvm
    real_path = os.path.realpath(path)
    if (own := _HELD.get(real_path)) is not None:
        raise in_use(path.parent, own.holder)
    try:
        file = jvm.java.io.RandomAccessFile(str(path), "rw")
    except Py4JJavaError as error:
        raise OSError(str(error.java_exception.getMessage())) from None
    deadline = time.monotonic() + DYING_S
    try:
        while file.getChannel().tryLock() is None:
            holder = Holder.from_text(path.read_text(encoding="utf-8"))
            if holder is None or not _is_dead(holder) or time.monotonic() > deadline:
                file.close()
                raise in_use(path.parent, holder)
            time.sleep(POLL_S)
        file.setLength(0)
        file.write(bytearray(me.to_text().encode()))
    except Py4JJavaError:
        file.close()
        return None
    return _HELD.setdefault(real_path, FileLock(real_path, me, file))


def _is_dead(holder: Holder) -> bool:
    """Whether a holder is known to be dead: of this machine, and without a process."""
    if holder.host != socket.gethostname():
        return False
    try:
        os.kill(holder.pid, 0)
        # In a container often nobody collects the dead: they stay as zombies.
        return Path(f"/proc/{holder.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except OSError:  # another user's, or a system without /proc
        return False


@dataclass(eq=False)
class KeptLease:
    """A lease that a thread renews; if it is lost, the thread says so and ends."""

    files: LeaseFiles
    where: str
    _lease: Lease
    clock: Callable[[], float] = time.monotonic
    _lost: str = ""
    _acts: list[Callable[[], None]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @staticmethod
    def take(
        files: LeaseFiles,
        me: Holder,
        where: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> KeptLease:
        """Takes the lease; waits out a holder that shows no sign of life, and refuses as soon as one does."""
        seen: Seen | None = None
        while not isinstance(found := leases.take(files, LEASE, me, seen, clock), Lease):
            if found.is_alive:
                raise in_use(where, found.holder)
            seen = found if found.signs else None
            sleep(leases.RENEW_S / 5)
        kept = KeptLease(files, where, found, clock)
        threading.Thread(target=kept._keep, name=f"lease on {where}", daemon=True).start()
        return kept

    def check(self) -> None:
        # A file system that hangs keeps the thread from saying so.
        if lost := self._lost or self._lease.overdue(self.clock()):
            raise ConfigurationError(
                f"this run has lost its lease on the checkpoint {self.where}: {lost}. It has stopped; "
                "nothing is lost or repeated. Let the other run go on, or stop it and start again"
            )

    def when_lost(self, act: Callable[[], None]) -> None:
        self._acts.append(act)

    def release(self) -> None:
        if not self._over.is_set():
            self._over.set()
            with suppress(OSError):  # then the next one waits until it looks dead
                leases.release(self.files, self._lease)

    def _keep(self) -> None:
        while not self._over.wait(leases.RENEW_S):
            if not self.renew():
                return

    def renew(self) -> bool:
        """Renews the lease; False once it is lost. A file system that does not answer is tried again."""
        now = self.clock()
        try:
            self._lease = leases.renew(self.files, self._lease, now)
        except LeaseLostError as error:
            self._lost = str(error)
            self._over.set()
            for act in self._acts:
                act()
            return False
        except OSError:
            pass  # `renew` itself says when it has been too long
        return True
