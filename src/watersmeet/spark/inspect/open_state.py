"""The states under a path: of one query, of all queries of a pipeline file, or of a shared dataflow."""

from __future__ import annotations

from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.spark.inspect.read_state import CheckpointState
from watersmeet.spark.jobs.checkpoint import RECORD, Checkpoint
from watersmeet.spark.jobs.pipeline_file import absolute_checkpoint, default_checkpoint
from watersmeet.spark.storage.folder import Folder
from watersmeet.spark.storage.paths import local_path


def open_states(spark: SparkSession, path: str) -> dict[str, CheckpointState]:
    """The state of each query whose checkpoint is at a path or one level below, by the folder's name.

    A pipeline file stands for the checkpoint that is its own unless another is named.
    """
    local = local_path(path)
    if local is not None and local.is_file():
        path = str(default_checkpoint(local))
    root = absolute_checkpoint(path).rstrip("/")
    folder = Folder(spark, root)
    try:
        if folder.holds(RECORD):
            return {root.rpartition("/")[2]: _open(spark, root)}
        below = sorted(name for name in folder.names("*") if folder.holds(f"{name}/{RECORD}"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    if not below:
        raise ConfigurationError(
            f"there is no checkpoint in {path}: name the folder that `watersmeet run` has made, which is "
            ".watersmeet/FILE beside FILE.sql unless --checkpoint said otherwise, or that of one query in it"
        )
    return {name: _open(spark, f"{root}/{name}") for name in below}


def _open(spark: SparkSession, folder: str) -> CheckpointState:
    checkpoint = Checkpoint(spark, folder)
    record = checkpoint.record()
    return CheckpointState(spark, checkpoint.spark_folder, None if record is None else record.pipeline)
