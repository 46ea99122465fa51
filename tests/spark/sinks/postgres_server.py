"""A PostgreSQL server on loopback with its data in a folder, from the machine's own programs."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.spark.kafka.broker import free_ports
from tests.spark.processes import descendants, kill

PLACES = "/usr/lib/postgresql/*/bin/postgres"
PAUSES_S = (0.5, 1, 2, 4, 8)  # until the processes of a killed server have let go of its memory


class NoServerError(Exception):
    """There is no PostgreSQL to start; the text says why, for the reason of a skip."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    programs: Path
    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def ask(self, sql: str) -> list[list[str]]:
        """The rows of a query, as text."""
        command = [str(self.programs / "psql"), "-X", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1"]
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "watersmeet", "-d", "postgres", "-c", sql]
        answer = subprocess.run([*command, *where], capture_output=True, text=True, check=True).stdout
        return [line.split("\t") for line in answer.splitlines()]

    def kill(self) -> None:
        """Ends every process of the server by SIGKILL, as a machine that loses power ends them."""
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        for process in [first, *(each.pid for each in descendants(first))]:
            kill(process)
        # Where nobody reaps the dead, the next server would take this one for alive by its lock files.
        for file in (self._data / "postmaster.pid", *self.folder.glob(".s.PGSQL.*")):
            file.unlink()

    def start(self) -> None:
        """Starts the server, which recovers what it had committed before it was killed."""
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        log = str(self.folder / "log")
        for pause_s in PAUSES_S:
            with contextlib.suppress(NoServerError):
                return _run(self, "pg_ctl", "-D", str(self._data), "-l", log, "-o", options, "-w", "start")
            time.sleep(pause_s)
        raise NoServerError(f"PostgreSQL does not start: {Path(log).read_text()[-500:]}")

    def stop(self) -> None:
        _run(self, "pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    @property
    def _data(self) -> Path:
        return self.folder / "data"


@contextlib.contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    """A server while the block runs; whoever connects from this machine is the user watersmeet."""
    programs = _programs()
    server = Server(programs, folder, free_ports(1)[0])
    data = folder / "data"
    data.mkdir(parents=True)
    _hand_over(folder)
    _run(server, "initdb", "-D", str(data), "-U", "watersmeet", "-A", "trust", "-N", "-E", "UTF8")
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _programs() -> Path:
    found = sorted(Path("/").glob(PLACES.lstrip("/")))
    on_path = shutil.which("postgres")
    if not found and on_path is None:
        raise NoServerError(f"PostgreSQL is not installed: no {PLACES} and no postgres on the PATH")
    return found[-1].parent if found else Path(str(on_path)).parent


def _user() -> str | None:
    """Whom the server runs as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise NoServerError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _hand_over(folder: Path) -> None:
    if (name := _user()) is not None:
        user = pwd.getpwnam(name)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user.pw_uid, user.pw_gid)
        for parent in folder.parents:  # pytest keeps its folders to their owner; this lets the server pass
            if parent.stat().st_uid == 0 and len(parent.parts) > 2:
                parent.chmod(parent.stat().st_mode | 0o011)


def _run(server: Server, program: str, *arguments: str) -> None:
    done = subprocess.run(
        [str(server.programs / program), *arguments],
        stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        cwd=server.folder,
        user=_user(),
        check=False,
    )
    if done.returncode:
        raise NoServerError(f"{program} failed: {(done.stdout or '')[-500:]}")
