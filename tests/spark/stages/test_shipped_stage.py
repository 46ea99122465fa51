"""A stage as it travels: what it loads, and when."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numba", "numpy", "pandas", "pyarrow", "sqlglot", "watersmeet.kernel", "watersmeet.query")

_LOADED = """
import sys, {module}
print(*(name for name in {heavy} if name in sys.modules))
"""


@pytest.mark.parametrize("module", ["watersmeet.spark.stages.shipped_stage"])
def test_what_spark_starts_for_every_stage_loads_nothing_heavy(module: str) -> None:
    # pyspark itself loads some of it; it is not ours to change.
    alone = _loaded("pyspark.sql.streaming.transform_with_state_driver_worker")
    assert _loaded(module) <= alone


def _loaded(module: str) -> set[str]:
    script = _LOADED.format(module=module, heavy=HEAVY)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())
