"""A Kafka broker of one node on loopback, from its published jars; also the jars that Spark's tests need.

Jars are named by their Maven coordinates and fetched by Ivy, which comes with Spark, into a cache that later
runs use: WATERSMEET_TEST_JARS, or a folder in the user's cache.

    python -m tests.spark.kafka.broker          # a broker to try things with, until Ctrl-C
    python -m tests.spark.kafka.broker --jars   # the connector's jars as a setting of Spark's
    python -m tests.spark.kafka.broker --fetch  # fills the cache; says what cannot be had
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from watersmeet.spark.session.packages import POSTGRES, installed_spark

BROKER = ("org.apache.kafka:kafka_2.13:4.1.2",)
START_S = 60
FETCH_S = 300

# Where the connector of the installed Spark is not published, the newest that is; its parts one by one, as
# not all that it depends on is published in its own version.
OLDER_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
OLDER_AVRO = ("org.apache.spark:spark-avro_2.13:4.1.1",)


class NotFetchedError(Exception):
    """Jars that cannot be had; the text says why, for the reason of a skip."""


def fetch(coordinates: Sequence[str], *, transitive: bool) -> list[Path]:
    """The jars of these coordinates, from the cache or from where Ivy finds them."""
    folder = _folder(coordinates)
    if not folder.exists():
        with tempfile.TemporaryDirectory(prefix="watersmeet-ivy-") as scratch:
            draft = Path(scratch) / "jars"
            _run_ivy(coordinates, Path(scratch), draft, Path(scratch) / "ivy", transitive)
            folder.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # another run was faster
                shutil.move(draft, folder)
    return sorted(folder.glob("*.jar"))


def _folder(coordinates: Sequence[str]) -> Path:
    cache = Path(os.environ.get("WATERSMEET_TEST_JARS") or Path.home() / ".cache" / "watersmeet-test-jars")
    return cache / "+".join(part.split(":", 1)[1].replace(":", "-") for part in coordinates)[:150]


def _run_ivy(coordinates: Sequence[str], scratch: Path, target: Path, cache: Path, transitive: bool) -> None:
    lines = ['<ivy-module version="2.0"><info organisation="watersmeet" module="tests"/><dependencies>']
    for text in coordinates:
        group, artifact, version = text.split(":")
        conf = "default" if transitive else "default->master"
        lines.append(f'<dependency org="{group}" name="{artifact}" rev="{version}" conf="{conf}"/>')
    (scratch / "ivy.xml").write_text("\n".join([*lines, "</dependencies></ivy-module>"]))
    jar = next(installed_spark()[2].glob("ivy-*.jar"))
    pattern = f"{target}/[artifact]-[revision](-[classifier]).[ext]"
    command = ["java", "-jar", str(jar), "-ivy", str(scratch / "ivy.xml"), "-cache", str(cache)]
    try:
        done = subprocess.run(
            [*command, "-retrieve", pattern], capture_output=True, text=True, timeout=FETCH_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFetchedError(f"{', '.join(coordinates)} cannot be fetched: {error}") from None
    if done.returncode or "UNRESOLVED DEPENDENCIES" in done.stdout or "FAILED DOWNLOADS" in done.stdout:
        missing = [line.strip(" :\t") for line in done.stdout.splitlines() if "not found" in line]
        said = missing[-1] if missing else (done.stderr.strip() or done.stdout.strip()).split("\n")[-1]
        raise NotFetchedError(f"{', '.join(coordinates)} cannot be fetched: {said}")


@functools.cache
def connector_jars() -> tuple[Path, ...]:
    """The jars that let Spark read and write Kafka, Avro and PostgreSQL."""
    spark, scala, _ = installed_spark()
    matching = f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}"
    avro = f"org.apache.spark:spark-avro_{scala}:{spark}"
    with ThreadPoolExecutor() as pool:
        jobs = [
            pool.submit(_either, (matching,), OLDER_CONNECTOR),
            pool.submit(_either, (avro,), OLDER_AVRO),
            pool.submit(fetch, (POSTGRES,), transitive=False),
        ]
    jars = [jar for job in jobs for jar in job.result()]
    ours = {path.name for path in installed_spark()[2].glob("*.jar")}
    return tuple(jar for jar in jars if jar.name not in ours)


def _either(first: Sequence[str], second: Sequence[str]) -> list[Path]:
    """The first jars if they can be had, else the second, once for as long as the cache lives."""
    if _folder(first).exists() or not _folder(second).exists():
        with contextlib.suppress(NotFetchedError):
            return fetch(first, transitive=True)
    return fetch(second, transitive=False)


def jars_setting() -> dict[str, str]:
    """Those jars as a setting of a Spark session."""
    return {"spark.jars": ",".join(map(str, connector_jars()))}


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@dataclass
class Broker:
    """A broker with its data in a folder; it can be stopped and started again, and has its topics still."""

    folder: Path
    ports: list[int] = field(default_factory=lambda: free_ports(2))
    process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.ports[0]}"

    def start(self) -> None:
        """Starts and returns when it answers."""
        settings = self.folder / "server.properties"
        if not settings.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            settings.write_text(self._settings())
            self._java(
                "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(settings)
            )
        log = (self.folder / "broker.log").open("ab")
        self.process = subprocess.Popen(
            ["java", "-Xmx512m", "-cp", _classpath(), "kafka.Kafka", str(settings)], stdout=log, stderr=log
        )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = (self.folder / "broker.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the broker does not start:\n{said}")
            time.sleep(0.2)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stops this very process; topics stay on disk."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, how)
            self.process.wait(timeout=60)
        self.process = None

    def _answers(self) -> bool:
        """Whether it tells its API versions, the first thing every client asks (request 18, version 0)."""
        request = b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x07\x00\x00"
        try:
            with socket.create_connection(("127.0.0.1", self.ports[0]), timeout=1) as client:
                client.sendall(request)
                return len(client.recv(8)) == 8
        except OSError:
            return False

    def _java(self, main: str, *arguments: str) -> None:
        done = subprocess.run(
            ["java", "-cp", _classpath(), main, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{main} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")

    def _settings(self) -> str:
        client, controller = self.ports
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.folder / "topics",
            "num.partitions": 3,  # of every topic, which the first message makes
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())


def _classpath() -> str:
    return os.pathsep.join(map(str, fetch(BROKER, transitive=True)))


@contextlib.contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """A broker while the block runs."""
    broker = Broker(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop(signal.SIGKILL)


def fetch_all() -> None:
    """Fetches what tests need, all at once: most of the time is waiting."""
    with ThreadPoolExecutor() as pool:
        for job in [pool.submit(connector_jars), pool.submit(_classpath)]:
            try:
                job.result()
            except NotFetchedError as error:
                print(f"tests that need it will be skipped: {error}")


def main() -> None:
    if "--fetch" in sys.argv:
        fetch_all()
        return
    if "--jars" in sys.argv:
        print("".join(f"{key}={value}" for key, value in jars_setting().items()))
        return
    with (
        tempfile.TemporaryDirectory(prefix="watersmeet-kafka-") as folder,
        running_broker(Path(folder)) as broker,
    ):
        print(f"{broker.bootstrap}, until Ctrl-C", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
