"""The Spark session of a command, which lasts as long as the command."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from typing import Any

from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.query.secret_reference import with_absolute_files
from watersmeet.session import Session
from watersmeet.spark.session.failures import explain_failure, first_line


@contextmanager
def spark_session(master: str, conf: Mapping[str, str], log: Path) -> Iterator[Session]:
    """A session that is stopped at the end; Spark's own messages go to the log."""
    try:
        session = Session(master=master, conf=conf, log=log)
    except WatersmeetError:
        raise
    except Exception as error:
        # For a master it cannot reach or a setting it refuses, Spark raises errors of many types.
        raise ConfigurationError(
            f"Spark does not start with master {master}: {first_line(str(error))}\n{_tail(log)}"
        ) from None
    with _tracebacks_aside(session, log):
        try:
            yield session
        except KeyboardInterrupt:
            raise  # whoever interrupts a command that is stopping will not wait: the JVM ends with it
        except BaseException:
            _stop(session, log)
            raise
        _stop(session, log)


@contextmanager
def _tracebacks_aside(session: Session, log: Path) -> Iterator[None]:
    """While open, what PySpark and Py4J would print of a JVM that is gone, in any thread, goes to the log."""
    handler, root = logging.FileHandler(log, delay=True), logging.getLogger()
    server: Any = session.spark.sparkContext._accumulatorServer
    server.handle_error = lambda *_: root.exception("the JVM has hung up")
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


def _stop(session: Session, log: Path) -> None:
    # PySpark's accumulator server may print a traceback when the JVM hangs up first; the JVM may be gone.
    with log.open("a") as file, redirect_stderr(file), suppress(Exception):
        session.spark.stop()


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """`key=value` texts as a mapping.

    >>> parse_settings(["spark.driver.memory=2g"])
    {'spark.driver.memory': '2g'}
    """
    parsed = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ConfigurationError(f"--conf {setting}: write KEY=VALUE, such as spark.driver.memory=4g")
        parsed[key.strip()] = with_absolute_files(value.strip(), Path())
    return parsed


def _tail(log: Path, lines: int = 5) -> str:
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(f"  {line}" for line in text.strip().split("\n")[-lines:])


def explained(error: Exception) -> WatersmeetError:
    """What Spark raised, in plain words; a mistake of our own is raised as it is."""
    if isinstance(error, WatersmeetError):
        return error
    # A JVM that was killed shows as a connection that is refused; a pipe breaks when nobody reads the output.
    is_lost = isinstance(error, ConnectionError) and not isinstance(error, BrokenPipeError)
    if type(error).__module__.startswith(("pyspark", "py4j")) or is_lost:
        return explain_failure(error)
    raise error


@contextmanager
def tables_aside(wanted: bool) -> Iterator[None]:
    """While open, a JVM started here prints answers on standard error, away from the JSON on the output."""
    if not wanted:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
