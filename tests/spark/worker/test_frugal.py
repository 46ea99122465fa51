"""Under a limit of memory a worker keeps nothing it has no use for."""

from __future__ import annotations

import subprocess
import sys

KEEPS_LITTLE = """
from pathlib import Path
import pyarrow as pa
from watersmeet.spark.worker.frugal import Frugal

def resident():
    return int(next(l for l in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in l).split()[1])

def grow(batches):
    kept = [bytes(100_000) for _ in range(1000)] + [pa.array(range(1000)) for _ in range(1000)]
    between = [bytes(2000) for _ in range(1000)]  # small ones, which hold a heap open at its end
    yield from batches
    del kept

pa.array(range(1000))  # what Arrow loads when it is first used
before = resident()
answers = list(Frugal(grow)(iter([1, 2])))
print(answers, resident() - before < 20_000, pa.default_memory_pool().backend_name)
"""


def test_a_frugal_function_gives_the_same_and_its_memory_back() -> None:
    if sys.platform != "linux":
        return
    told = subprocess.run([sys.executable, "-c", KEEPS_LITTLE], capture_output=True, text=True, check=True)
    assert told.stdout.split("\n")[0] == "[1, 2] True system"
