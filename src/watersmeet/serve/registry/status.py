"""What a server says about itself beside its replies: that it runs, how far it has come, why it failed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from watersmeet.serve.registry.folder import RegistryFolder

STATUS = "status.json"


@dataclass(frozen=True)
class Status:
    """`status.json`. `failure` is why the last run ended, if it failed."""

    pid: int = field(default_factory=os.getpid)
    jvm: int | None = None  # Spark's process, which outlives a killed server for a moment
    heartbeat: float = field(default_factory=time.time)
    progress: dict[str, Any] | None = None
    failure: str | None = None

    def write(self, folder: RegistryFolder) -> None:
        folder.write(STATUS, msgspec.json.encode(replace(self, heartbeat=time.time())).decode())


def read_status(folder: RegistryFolder) -> Status | None:
    """The last status; None if there is none or it cannot be read, since nothing depends on it."""
    try:
        return msgspec.json.decode(folder.read(STATUS) or "", type=Status)
    except msgspec.DecodeError:
        return None


def await_end_of_last(folder: RegistryFolder, patience_s: float = 15.0) -> None:
    """Waits for the Spark process of a killed server to end: it must not run beside the next one."""
    status = read_status(folder)
    deadline = time.monotonic() + patience_s
    while status and status.jvm and _is_running(status.jvm) and time.monotonic() < deadline:
        time.sleep(0.1)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:  # gone, or another user's: the number was reused
        return False
    return True
