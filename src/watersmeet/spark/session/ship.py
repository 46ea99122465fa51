"""Takes this package to the executors of a cluster, which need not have it installed.

What Watersmeet stands on (NumPy, Numba, PyArrow, pandas, protobuf) must be there: it is compiled code, and
large. The package itself is a small archive that Spark hands to every executor, so that driver and workers
always run the same version of it.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

PACKAGE = Path(__file__).parents[2]


def ship_package(spark: SparkSession) -> None:
    """Makes every executor of this session, those that join later too, import this very package."""
    context, archive = spark.sparkContext, str(zip_package())
    paths = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    if archive in paths:
        return
    context.addPyFile(archive)
    # Spark looks at a stage on the driver first, with the executors' interpreter, but without added files.
    context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [archive, *paths]))
    # Numba keeps what it compiles of an archive below this folder, and a container's home may be read-only:
    # the folder an executor works in is its own.
    context.environment.setdefault("XDG_CACHE_HOME", ".")


@functools.cache
def zip_package() -> Path:
    """The package's archive, made once and kept until this process ends: executors may join at any time."""
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = folder / f"{PACKAGE.name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(PACKAGE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                file.write(path, path.relative_to(PACKAGE.parent))
    return archive
