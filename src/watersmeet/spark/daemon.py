"""The parent of Python workers, with everything they need already loaded.

Spark forks its Python workers from a daemon. Started as this module (`spark.python.daemon.module`), the
daemon loads the kernel once, and every worker is born with it, instead of spending seconds on imports.
"""

from __future__ import annotations

import gc

import watersmeet.spark.exchange.pack
import watersmeet.spark.exchange.unpack
import watersmeet.spark.sources.parquet.reader
import watersmeet.spark.stages.distinct
import watersmeet.spark.stages.join_stage
import watersmeet.spark.stages.numbering_stage  # noqa: F401
from watersmeet.kernel.warm_up import warm_up

if __name__ == "__main__":
    from pyspark.daemon import manager

    warm_up()
    # A worker collects garbage after every task; what was loaded here need not be looked through each time.
    gc.collect()
    gc.freeze()
    manager()
