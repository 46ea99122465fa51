"""What Watersmeet needs around it: Java, and a Spark session set up for short micro-batches.

`new_session` makes such a session; `check_session` says what a session made by someone else lacks, and
changes nothing in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.query.secret_reference import fill_in, has_reference
from watersmeet.spark.exchange.labels import MAX_LABELS
from watersmeet.spark.session.functions import remove_functions
from watersmeet.spark.session.redacted_log import stderr_to
from watersmeet.spark.storage.paths import local_path

MIN_JAVA = 17
MIN_SPARK = (4, 3)
CLUSTER_PARTITIONS = 16  # on a cluster of unknown size
RETRIES = 4

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PARTITIONS = "spark.sql.shuffle.partitions"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STATE_COMMITS = "spark.sql.streaming.stateStore.checkpointFormatVersion"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
STATE_RECORDS = "spark.sql.execution.arrow.transformWithStateInPySpark.maxStateRecordsPerBatch"
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
REUSE = "spark.python.worker.reuse"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
QUICK_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
REDACTION = "spark.redaction.regex"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"

SETTINGS: Mapping[str, str] = {
    # The stage's state needs several column families, which only this provider has.
    PROVIDER: ROCKSDB,
    # A commit then writes what changed, not a snapshot of the whole state.
    CHANGELOG: "true",
    # Two tries of one task both upload their changes. In this format each upload has a name of its own,
    # and the commit log says which one counts; in the older one a version may be read on the wrong one.
    STATE_COMMITS: "2",
    # Counting keys costs a read for every write; the stage reports its own state size.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # A hundred batches of old state, the default, is disk and listing time that no restart uses.
    "spark.sql.streaming.minBatchesToRetain": "20",
    # A state record is a chunk of up to megabytes, and this many travel in one message.
    STATE_RECORDS: "16",
    # Pack works on whole Arrow batches: the larger, the fewer chunks. Spark still cuts them at 64 MB.
    ARROW_ROWS: "200000",
    # The default of 96 bits is deprecated, and a third of the time that it takes to write answers.
    TIMESTAMPS: "TIMESTAMP_MICROS",
    # The worker keeps the join's indexes between batches.
    REUSE: "true",
    # Over TCP, Nagle's algorithm and delayed acknowledgements hold up every Python task for 40 ms.
    UNIX_SOCKETS: "true",
    # Spark's progress bar and web page would fight with ours for the terminal and for a port.
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    # What that page would show of the past: a thousand batches of it are tens of megabytes.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "100",
    "spark.sql.ui.retainedExecutions": "20",
    # For it, Spark describes the plan of every batch at length.
    "spark.sql.ui.explainMode": "simple",
    # Spark's own pattern of what its plans and logs must not show, and Kafka's login beside it.
    REDACTION: "(?i)secret|password|token|access[.]?key|jaas|credential",
    # A shared dataflow of ten thousand queries travels with its tasks; as a broadcast it would fail.
    "spark.broadcast.UDFCompressionThreshold": "64m",
    # Text into time, and time into text, the same wherever the driver runs.
    "spark.sql.session.timeZone": "UTC",
}

_LOCAL = re.compile(r"local(?:\[\s*(\*|\d+)\s*(?:,\s*(\d+)\s*)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_INSTALL_JAVA = f"""\
  Debian, Ubuntu:  sudo apt-get install openjdk-{MIN_JAVA}-jre-headless
  Fedora:          sudo dnf install java-{MIN_JAVA}-openjdk-headless
  macOS:           brew install openjdk@{MIN_JAVA}
If Java is installed but not found, point JAVA_HOME at its folder."""


def check_java() -> str:
    """The `java` that Spark will start, known to be new enough; otherwise how to get one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise _no_java("there is no `java` on the PATH and JAVA_HOME is not set")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_java(f"{java} does not run ({error}){_blame(home)}") from None
    version = _JAVA_VERSION.search(answer.stderr + answer.stdout)
    if answer.returncode != 0 or version is None:
        raise _no_java(f"{java} does not print its version{_blame(home)}")
    if int(version[1]) < MIN_JAVA:
        raise _no_java(f"{java} is Java {version[1]}{_blame(home)}")
    return java


def _blame(home: str | None) -> str:
    return f"; JAVA_HOME is {home}" if home else ""


def _no_java(problem: str) -> ConfigurationError:
    return ConfigurationError(f"Spark needs Java {MIN_JAVA} or newer, but {problem}.\n{_INSTALL_JAVA}")


def new_session(
    master: str = "local[*]",
    app_name: str = "watersmeet",
    conf: Mapping[str, str] | None = None,
    *,
    log: Path | None = None,
) -> SparkSession:
    """A new Spark session with the settings Watersmeet wants; what `conf` says wins.

    With `log`, the messages of the JVM and its workers go to that file instead of the terminal.
    """
    check_java()
    if SparkContext._active_spark_context is not None:
        raise ConfigurationError(
            "a Spark session is already running in this process: hand it over with Session(spark), or stop it"
        )
    given = dict(conf or {})
    settings = {**SETTINGS, **_fitted(master, given), **given}
    secrets = {key: fill_in(text, f"setting {key}") for key, text in given.items() if has_reference(text)}
    if secrets:
        # Spark passes such settings on to Hadoop, where they are named without the prefix.
        hidden = "|".join(re.escape(key.removeprefix("spark.hadoop.")) for key in secrets)
        settings[REDACTION] = f"{settings[REDACTION]}|{hidden}"
    # Workers started with another interpreter would not find what this one has; on a cluster it may have
    # another path, which its user has to name.
    if is_local(master) or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # PySpark says so once per process; every feature used here is tested with the pandas installed.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    settings |= {"spark.master": with_retries(master), "spark.app.name": app_name}
    builder = SparkSession.builder
    for key, value in {**settings, **secrets}.items():
        builder = builder.config(key, value)
    with stderr_to(log):
        if secrets:
            # What the JVM is launched with is on its command line, for everybody on the machine to read.
            plain = [(key, value) for key, value in settings.items() if key not in secrets]
            SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(plain))
        spark = builder.getOrCreate()
    # Spark takes a Python program for an interactive shell and falls back to its own level.
    spark.sparkContext.setLogLevel("ERROR")
    remove_functions(spark)
    return spark


def plain_settings(master: str, conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """What fits a session to the machine or the cluster, and would fit any other: partitions and memory."""
    settings = {PARTITIONS: str(default_partitions(master, conf or {}))}
    if master.startswith("local"):
        # A laptop's name may not resolve, or resolve to an address of a network it has left.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings["spark.driver.memory"] = f"{_driver_memory_gb()}g"
    return settings


def _fitted(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """The settings that depend on the machine or the cluster."""
    settings = {**plain_settings(master, conf), JAVA_OPTIONS: _java_options()}
    if master.startswith("local"):
        # On a local disk the default one starts ten processes for every file of a checkpoint (`readlink` for
        # each rename, `chmod`), eighty a batch. Renames are as atomic with this one.
        settings[FILE_MANAGER] = QUICK_FILES
        # Workers are forked from a process that has the kernel loaded (executors elsewhere may not have it).
        settings["spark.python.daemon.module"] = "watersmeet.spark.daemon"
    return settings


def keep_renames_safe(spark: SparkSession, checkpoint: str) -> None:
    """Leaves the choice of how files are renamed to Spark, where a checkpoint is not on this machine's disk.

    Ours is for that disk alone: elsewhere two runs that write one batch might both take theirs for the first.
    """
    if local_path(checkpoint) is None and spark.conf.get(FILE_MANAGER, None) == QUICK_FILES:
        spark.conf.unset(FILE_MANAGER)


def _java_options() -> str:
    quiet = Path(__file__).with_name("log4j2.json").as_uri()
    options = [f"-Dlog4j2.configurationFile={quiet}"]
    if sys.platform == "linux":
        # Hadoop forks `chmod` for each file it makes on a local disk, a dozen a batch: make the fork cheap.
        options.append("-Djdk.lang.Process.launchMechanism=VFORK")
    return " ".join(options)


def _driver_memory_gb() -> int:
    """A quarter of the machine between 1 and 4 GB: a local driver is also the executor and holds RocksDB."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 1
    return max(1, min(4, total // 4 // 2**30))


def is_local(master: str) -> bool:
    """Whether the master runs everything in this machine's one JVM, with no executors beside it."""
    return _LOCAL.fullmatch(master) is not None


def with_retries(master: str) -> str:
    """A local master that tries a failed task again, as a cluster does: `local[2]` gives up at once."""
    local = _LOCAL.fullmatch(master)
    if local is None or local[2]:
        return master
    return f"local[{local[1] or 1},{RETRIES}]"


def default_partitions(master: str, conf: Mapping[str, str]) -> int:
    """One shuffle partition a core of a cluster: each costs a task and a state commit in every batch.

    One for two cores of a single machine, where all else that a batch takes needs the other.
    """
    return max(1, cores_of(master, conf) // 2) if is_local(master) else cores_of(master, conf)


def cores_of(master: str, conf: Mapping[str, str]) -> int:
    """The cores that a master has for tasks, as far as it is known."""
    if local := _LOCAL.fullmatch(master):
        cores = local[1] or "1"
        return _cores() if cores == "*" else max(1, int(cores))
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        return int(cluster[1]) * int(cluster[2])
    if "spark.cores.max" in conf:
        return max(1, int(conf["spark.cores.max"]))
    if "spark.executor.instances" in conf:
        return max(1, int(conf["spark.executor.instances"]) * int(conf.get("spark.executor.cores", "1")))
    return CLUSTER_PARTITIONS


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def check_session(spark: SparkSession) -> tuple[str, ...]:
    """Refuses a session that cannot run Watersmeet, naming all that is wrong; returns advice on speed."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ConfigurationError(
            "this is a Spark Connect session, which keeps its state store out of reach: "
            "use a classic session (SparkSession.builder.master(...), not .remote(...))"
        )
    problems = [*_version_problems(spark.version), *_session_problems(spark)]
    if problems:
        lines = "\n".join(f"  - {problem}" for problem in problems)
        raise ConfigurationError(f"this Spark session cannot run Watersmeet:\n{lines}")
    return tuple(_advice(spark))


def _version_problems(version: str) -> Iterator[str]:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < MIN_SPARK:
        wanted = ".".join(map(str, MIN_SPARK))
        yield f"it is Spark {version}, and {wanted} or newer is needed: pip install 'pyspark>={wanted}'"


def _session_problems(spark: SparkSession) -> Iterator[str]:
    provider = spark.conf.get(PROVIDER, None)
    if provider != ROCKSDB:
        yield f'{PROVIDER} is {provider}; now: spark.conf.set("{PROVIDER}", "{ROCKSDB}")'
    partitions = int(spark.conf.get(PARTITIONS, "200") or 200)
    if partitions > MAX_LABELS:
        yield (
            f"{PARTITIONS} is {partitions}, more than the {MAX_LABELS} buckets there can be; "
            f'now: spark.conf.set("{PARTITIONS}", "{_suggested_partitions(spark)}")'
        )
    workers, master = spark.sparkContext.pythonExec, spark.sparkContext.master or ""
    if master.startswith("local") and not _same_python(workers):
        yield (
            f"its Python workers run {workers}, not the interpreter of this program; this cannot be changed "
            f"later: set the environment variable PYSPARK_PYTHON to {sys.executable} before it is made"
        )


def _same_python(workers: str) -> bool:
    """Whether the workers' interpreter is of this environment: links are not followed, as all venvs' meet."""
    found = shutil.which(workers)
    return found is not None and Path(found).absolute().parent == Path(sys.executable).absolute().parent


def _advice(spark: SparkSession) -> Iterator[str]:
    partitions = int(spark.conf.get(PARTITIONS, "200") or 200)
    suggested = _suggested_partitions(spark)
    if partitions > 4 * suggested:
        yield (
            f"{PARTITIONS} is {partitions} for {suggested} cores: every batch commits that many states; "
            f'spark.conf.set("{PARTITIONS}", "{suggested}")'
        )
    for key, why in (
        (CHANGELOG, "a batch uploads its whole state, not what changed"),
        (STATE_COMMITS, "a task that runs twice may leave state of which neither try is the author"),
        (STATE_RECORDS, "a large state may overflow the memory of the driver or executor when it is read"),
        (ARROW_ROWS, "batches are cut into many small chunks"),
    ):
        value = spark.conf.get(key, None)
        if value != SETTINGS[key]:
            yield f'{key} is {value}: {why}; spark.conf.set("{key}", "{SETTINGS[key]}")'
    settings = spark.sparkContext.getConf()
    if settings.get(REUSE, "true") != "true":
        yield f"{REUSE} is false: indexes are rebuilt in every batch; set it when the session is made"
    if settings.get(UNIX_SOCKETS, "false") != "true":
        yield f"{UNIX_SOCKETS} is false: every Python task waits 40 ms; set it when the session is made"


def _suggested_partitions(spark: SparkSession) -> int:
    return max(1, spark.sparkContext.defaultParallelism)
