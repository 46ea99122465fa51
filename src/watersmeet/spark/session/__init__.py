"""Spark sessions for short micro-batches: Java, settings, packages, and Spark's failures in plain words."""

from watersmeet.spark.session.connectors import FILE_FORMATS, local_files, refusals_named, resolve
from watersmeet.spark.session.environment import (
    PARTITIONS,
    check_java,
    check_session,
    default_partitions,
    new_session,
)
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.session.packages import add_packages
from watersmeet.spark.session.ship import ship_package

__all__ = [
    "FILE_FORMATS",
    "PARTITIONS",
    "add_packages",
    "check_java",
    "check_session",
    "default_partitions",
    "explain_failure",
    "local_files",
    "new_session",
    "refusals_named",
    "resolve",
    "ship_package",
]
