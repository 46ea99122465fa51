"""A file system that is not `file:`, as a cluster's is: Hadoop's table of mounts over a local folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def mount(spark: SparkSession, folder: Path) -> str:
    """The address under which a new folder `mounted` can be reached."""
    (folder / "mounted").mkdir()
    name = folder.name.replace("_", "-")
    settings: Any = spark.sparkContext._jsc
    settings.hadoopConfiguration().set(
        f"fs.viewfs.mounttable.{name}.link./data", (folder / "mounted").as_uri()
    )
    return f"viewfs://{name}/data"
