"""The packages that formats need beside Spark itself, in the versions that fit the Spark installed.

Spark downloads them when a session starts (`spark.jars.packages`) and keeps them for the next one. A package
or jar of the same name that the user provides, or that is among Spark's own jars, is left as it is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector

PACKAGES = "spark.jars.packages"
JARS = "spark.jars"

KAFKA = "spark-sql-kafka-0-10"
AVRO = "spark-avro"
POSTGRES = "org.postgresql:postgresql:42.7.14"

_CORE = re.compile(r"spark-core_(?P<scala>[\d.]+)-(?P<spark>.+)\.jar")
_NO_WORD = "JAVA_GATEWAY_EXITED"  # all that PySpark knows when Spark ends before it has begun
_UNRESOLVED = re.compile(r"(?:unresolved dependency|download failed): (?P<what>[^\]\n]+)")


@functools.cache
def installed_spark() -> tuple[str, str, Path]:
    """The version of Spark that a session will start, that of its Scala, and the folder of its jars."""
    folder = Path(_find_spark_home()) / "jars"
    for jar in folder.glob("spark-core_*.jar"):
        if found := _CORE.fullmatch(jar.name):
            return found["spark"], found["scala"], folder
    raise ConfigurationError(f"there is no spark-core in {folder}: install Spark anew (pip install pyspark)")


def packages_for(connectors: Iterable[Connector]) -> tuple[str, ...]:
    """The packages that these sources and sinks need, as Maven coordinates, each once."""
    needed: dict[str, None] = {}
    for connector in connectors:
        kind = connector.format.lower()
        if kind == "kafka":
            needed[_of_spark(KAFKA)] = None
        if kind == "avro" or (connector.option("value") or "").lower() == "avro":
            needed[_of_spark(AVRO)] = None
        if kind == "postgres":
            needed[POSTGRES] = None
    return tuple(needed)


def kafka_package() -> str:
    """The coordinates of the Kafka connector that fits the Spark installed."""
    return _of_spark(KAFKA)


def _of_spark(artifact: str) -> str:
    spark, scala, _ = installed_spark()
    return f"org.apache.spark:{artifact}_{scala}:{spark}"


def add_packages(settings: Mapping[str, str], connectors: Iterable[Connector]) -> dict[str, str]:
    """The settings of a session with the packages that its connectors need and that are not there already."""
    given = [*settings.get(PACKAGES, "").split(","), *settings.get(JARS, "").split(",")]
    missing = [package for package in packages_for(connectors) if not _is_there(package, given)]
    if not missing:
        return dict(settings)
    kept = [package for package in settings.get(PACKAGES, "").split(",") if package.strip()]
    return {**settings, PACKAGES: ",".join([*kept, *missing])}


def _is_there(package: str, given: Iterable[str]) -> bool:
    name = re.sub(r"_[\d.]+$", "", package.split(":")[1])
    like = re.compile(rf"(?:^|[/:]){re.escape(name)}[_:-][\w.:+-]+$")
    installed = any(like.search(str(jar).removesuffix(".jar")) for jar in installed_spark()[2].glob("*.jar"))
    return installed or any(like.search(item.strip().removesuffix(".jar")) for item in given)


def download_refusal(settings: Mapping[str, str], log: str) -> ConfigurationError | None:
    """The refusal if Spark did not start because a package could not be downloaded; else None.

    `log` is the error and, where they were kept, Spark's own messages.
    """
    found = _UNRESOLVED.search(log)
    if not settings.get(PACKAGES) or (found is None and _NO_WORD not in log):
        return None
    why = found["what"].strip() if found else "its own messages, before this one, say why"
    return ConfigurationError(
        f"Spark cannot download {settings[PACKAGES]}: {why}.\n"
        "  From a repository that has it:    --conf spark.jars.repositories=URL\n"
        f"  In another version:               --conf {PACKAGES}=GROUP:ARTIFACT:VERSION\n"
        f"  From files, with all they need:   --conf {JARS}=FIRST.jar,SECOND.jar"
    )
