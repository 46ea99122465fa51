"""One engine on one workload, in a process of its own: `python -m watersmeet.bench.child ENGINE NAME DIR S`.

S are the seconds of warm-up.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from watersmeet.bench.engines import ENGINES
from watersmeet.bench.workloads import WORKLOADS


def main() -> None:
    engine, workload, folder, warm_up_s = sys.argv[1], sys.argv[2], Path(sys.argv[3]), float(sys.argv[4])
    outcome = ENGINES[engine](WORKLOADS[workload], folder, warm_up_s)
    (folder / f"{engine}.json").write_text(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
