"""The file that takes Spark's own messages, so that the terminal is left to answers and progress."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from watersmeet.cli.run_request import Request
from watersmeet.errors import ConfigurationError
from watersmeet.spark.storage.disk import make_private, open_private
from watersmeet.spark.storage.paths import local_path

MAX_BYTES = 20_000_000  # Spark's workers write a few kB a batch, whether anything is wrong or not


def open_log(request: Request) -> Path:
    """The log asked for, else one beside the checkpoint, else a temporary file; it can be written to."""
    if request.log is not None:
        try:
            return _touch(request.log)
        except OSError as error:
            raise ConfigurationError(f"--log {request.log} cannot be written: {error.strerror}") from None
    if (checkpoint := local_path(request.checkpoint_root)) is not None:
        with suppress(OSError):
            return _touch(checkpoint.with_name(f"{checkpoint.name}.log"))
    return temporary_log()


def temporary_log() -> Path:
    """A log that nothing else uses."""
    return Path(tempfile.mkdtemp(prefix="watersmeet-")) / "spark.log"


def _touch(log: Path) -> Path:
    make_private(log.parent)
    with open_private(log, "a"):
        return log


def trim_log(log: Path, max_bytes: int = MAX_BYTES) -> None:
    """Starts a log that has grown too long anew, its text kept as LOG.1; its writers append and go on."""
    with suppress(OSError):
        if log.stat().st_size > max_bytes:
            shutil.copy(log, log.with_name(f"{log.name}.1"))  # with its mode
            with log.open("r+b") as file:
                file.truncate(0)
