"""What each of our settings saves in a micro-batch: netmon3 with all of them, then without one at a time.

    python benchmarks/batch_cost.py [--rows 5000] [--batches 30] [--warm-up 40]

Every line is a process of its own. The first batches, and some seconds of the same query before, are warm-up.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from watersmeet.bench.compare import FIRST_BATCHES
from watersmeet.bench.engines import WARM_UP_S, run_ours
from watersmeet.bench.workloads import NETMON3
from watersmeet.spark.session.environment import FILE_MANAGER, UNIX_SOCKETS
from watersmeet.spark.sources.parquet.folder_columns import DIRECT

CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
VARIANTS = {
    "as we set it": {},
    "Python workers over TCP": {UNIX_SOCKETS: "false"},
    "Spark's default files of checkpoints": {
        FILE_MANAGER: f"{CHECKPOINTING}.FileContextBasedCheckpointFileManager"
    },
    "Spark reads the parquet files": {DIRECT: "false"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=5000, help="rows a batch, all streams together")
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, help="seconds")
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.variant:
        outcome = run_ours(NETMON3, asked.folder, asked.warm_up, VARIANTS[asked.variant])
        print(statistics.median(batch.ms for batch in outcome.batches[FIRST_BATCHES:]))
        return
    with tempfile.TemporaryDirectory(prefix="watersmeet-batch-cost-") as folder:
        base = 0.0
        for number, name in enumerate(VARIANTS):
            place = Path(folder) / str(number)
            NETMON3.write(place, batch_rows=asked.rows, batches=asked.batches)
            command = [sys.executable, __file__, "--variant", name, "--folder", str(place)]
            command += ["--warm-up", str(asked.warm_up)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            ms = float(done.stdout.split()[-1])
            base = base or ms
            print(f"{name:38} {ms:6.0f} ms a batch, {ms / base:.2f}x", flush=True)


if __name__ == "__main__":
    main()
