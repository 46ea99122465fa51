"""What sources and sinks share: paths relative to the pipeline file, and Spark's refusals put plainly."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterator
from pathlib import Path

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError, TransientError, WatersmeetError
from watersmeet.query import Connector
from watersmeet.query.secret_reference import has_reference
from watersmeet.spark import generator
from watersmeet.spark.session.failures import explain_failure, first_line
from watersmeet.spark.session.packages import PACKAGES, packages_for
from watersmeet.spark.storage.paths import local_path, spark_path

_HIDDEN = "spark.sql.redaction.options.regex"
_PATHS = ("path", "basepath", "sourcearchivedir")  # options that are paths
FILE_FORMATS = ("parquet", "orc", "avro", "json", "csv", "text", "xml")
_FORMATS = (
    *FILE_FORMATS,
    "kafka",
    "postgres",
    "rate",
    "socket",
    "console",
    "memory",
    "delta",
    "iceberg",
    generator.FORMAT,
)


def resolve(connector: Connector, base: Path, what: str = "") -> dict[str, str]:
    """The connector's options as Spark is given them: paths from the file's folder, secrets filled in.

    `what` names the stream or sink to whoever lacks a secret.
    """
    return {
        key: spark_path(value, base) if key.lower() in _PATHS else value
        for key, value in connector.filled_in(what or f"format {connector.format}").items()
    }


def local_files(connector: Connector, base: Path, what: str = "") -> Path | None:
    """Where a connector's files are on this machine's disk, or None if they are not."""
    found = resolve(connector, base, what).items()
    path = next((value for key, value in found if key.lower() == "path"), None)
    return None if path is None else local_path(path)


def hide_options(spark: SparkSession, connector: Connector) -> None:
    """Keeps options that hold secrets out of Spark's plans, and so of its logs of events."""
    hidden = [re.escape(key) for key, value in connector.options if has_reference(value)]
    if not hidden:
        return
    known = spark.conf.get(_HIDDEN) or ""  # Spark's default, unless it is set
    if missing := [key for key in hidden if key not in known.split("|")]:
        spark.conf.set(_HIDDEN, "|".join([*([known] if known else []), *missing]))


@contextlib.contextmanager
def refusals_named(what: str, connector: Connector) -> Iterator[None]:
    """Puts what Spark refuses about `what`, such as `stream s1`, into one sentence.

    A failure that may pass by itself is no refusal, and stays what it is.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as refusal:
        raise _refusal(what, connector, refusal) from None


def _refusal(what: str, connector: Connector, refusal: BaseException) -> WatersmeetError:
    text = str(refusal)
    if "DATA_SOURCE_NOT_FOUND" in text or "DATA_SOURCE_NOT_ENABLED" in text:
        if needed := packages_for((connector,)):
            return ConfigurationError(
                f"{what}: this Spark session has no format '{connector.format}'. Start it with "
                f"--conf {PACKAGES}={','.join(needed)}"
            )
        close = difflib.get_close_matches(connector.format.lower(), _FORMATS, n=1)
        guess = f" Did you mean '{close[0]}'?" if close and close[0] != connector.format.lower() else ""
        return ConfigurationError(
            f"{what}: Spark has no format '{connector.format}'.{guess} A format that is not built in needs "
            "its package: --conf spark.jars.packages=GROUP:ARTIFACT:VERSION"
        )
    explained = explain_failure(refusal)
    if isinstance(explained, TransientError):
        return explained
    reason = first_line(str(explained).removeprefix("Spark failed: "))
    return ConfigurationError(f"{what} (format {connector.format}): {reason}")
