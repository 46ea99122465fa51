"""What Spark's processes write on standard error goes to a log, without the secrets that are in use.

The JVM and its workers put whatever they fail with there, and that may quote an option. So they write into a
pipe, and a thread of this process, which knows the secrets, passes lines on. A line that is still on its way
when this process is killed is lost.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from watersmeet.errors import redact
from watersmeet.spark.storage.disk import make_private, open_private

_LONGEST = 1 << 20  # bytes of a line that are held before they are passed on
_PATIENCE_S = 2.0  # for the last lines of processes that did not start


@contextlib.contextmanager
def stderr_to(log: Path | None) -> Iterator[None]:
    """While open, processes started here inherit a way into `log` as their standard error, for good."""
    if log is None:
        yield
        return
    make_private(log.parent)
    open_private(log, "a").close()  # what cannot be written to is refused here
    source, target = os.pipe()
    writer = threading.Thread(target=_pass_on, args=(source, log), name="spark-log", daemon=True)
    writer.start()
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(target, 2)
    os.close(target)
    try:
        yield
    except BaseException:
        _restore(kept)
        writer.join(_PATIENCE_S)
        raise
    _restore(kept)


def _restore(kept: int) -> None:
    os.dup2(kept, 2)
    os.close(kept)


def _pass_on(source: int, log: Path) -> None:
    """Appends what comes, line by line, until all processes that write have ended."""
    with os.fdopen(source, "rb") as pipe, open_private(log, "a") as file:
        while line := pipe.readline(_LONGEST):
            with contextlib.suppress(OSError):  # a full disk must not stop those who write
                file.write(redact(line.decode("utf-8", "replace")))
                file.flush()
