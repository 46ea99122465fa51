"""How much memory a join may take for combinations at once, as a setting of the session."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.query.byte_size import parse_bytes_of
from watersmeet.spark.tuning import DEFAULT, Tuning

BLOCK = "spark.watersmeet.blockBytes"
LEAST_BYTES = 1_000_000  # below this the blocks cost more than the memory they save is worth
LEAST_PIECE = 1 << 20


def session_tuning(spark: SparkSession, smaller: int = 1) -> Tuning:
    """The sizes by which the engine works in this session; pieces of a batch may be so many times smaller."""
    tuning = replace(DEFAULT, piece_bytes=max(LEAST_PIECE, DEFAULT.piece_bytes // smaller))
    text = spark.conf.get(BLOCK, None)
    if text is None:
        return tuning
    nbytes = parse_bytes_of(BLOCK, text)
    if nbytes < LEAST_BYTES:
        raise ConfigurationError(f"{BLOCK} is {text}: write 1MB or more")
    return replace(tuning, kernel=replace(tuning.kernel, block_bytes=nbytes))
