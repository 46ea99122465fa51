"""Paths and small text files, on this machine's disk or on any file system that Spark reaches."""

from watersmeet.spark.storage.folder import Folder, write_whole
from watersmeet.spark.storage.paths import has_scheme, local_path, spark_path

__all__ = ["Folder", "has_scheme", "local_path", "spark_path", "write_whole"]
