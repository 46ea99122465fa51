"""One engine on one workload, in a process of its own: `... watersmeet.bench.child ENGINE NAME DIR S [N]`.

S are the seconds of warm-up, N the shuffle partitions; without it every engine has the number that suits it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from watersmeet.bench.engines import ENGINES
from watersmeet.bench.workloads import WORKLOADS
from watersmeet.spark.session.environment import PARTITIONS


def main() -> None:
    engine, workload, folder, warm_up_s = sys.argv[1], sys.argv[2], Path(sys.argv[3]), float(sys.argv[4])
    conf = {PARTITIONS: sys.argv[5]} if len(sys.argv) > 5 else None
    outcome = ENGINES[engine](WORKLOADS[workload], folder, warm_up_s, conf)
    (folder / f"{engine}.json").write_text(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
