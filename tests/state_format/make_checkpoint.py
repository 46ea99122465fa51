"""Writes the checkpoint of this version's state format: python -m tests.state_format.make_checkpoint

Run it when STATE_FORMAT was raised, or when what is stored has changed while no version with this number has
been released.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.spark.pipelines import random_batches, write_case
from tests.state_format.checkpoint_case import FIRST_HALF, store
from watersmeet.plan.state_format import STATE_FORMAT

PARTITIONS = 2

# DISTINCT, so that the state has tuples, answers that wait, and values that are present.
SELECT = (
    "SELECT DISTINCT a.k, a.v AS va, b.v AS vb, c.v AS vc FROM s1 [RANGE 4 SECONDS] AS a, "
    "s2 [RANGE 3 SECONDS] AS b, s3 [TUMBLE 6 SECONDS] AS c WHERE a.k = b.k AND b.k = c.k"
)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve() / "case"
        batches = random_batches(seed=4, count=2 * FIRST_HALF, rows=12, keys=5)
        case = write_case(folder, SELECT, batches, arrived=FIRST_HALF)
        run = (sys.executable, "-m", "watersmeet", "run", str(case.file), "--available-now")
        where = ("--checkpoint", str(case.checkpoint), "--log", str(folder / "spark.log"))
        conf = ("--conf", f"spark.sql.shuffle.partitions={PARTITIONS}")
        subprocess.run([*run, *where, *conf], check=True)
        target = store(case, STATE_FORMAT)
    files = [path for path in target.rglob("*") if path.is_file()]
    print(f"{target}: {len(files)} files, {sum(path.stat().st_size for path in files)} bytes")


if __name__ == "__main__":
    main()
