"""Puts the faults of the catalogue in one by one, and fails unless tests in process find each.

python -m tests.faults.run              all faults
python -m tests.faults.run "stale"      those whose name holds this text
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.faults.catalogue import FAULTS, Fault
from tests.paths import ROOT

SOURCE = "src"


def finder_of(fault: Fault, folder: Path) -> str | None:
    """The first test that fails once the fault is in; None if it goes unnoticed."""
    file = folder / SOURCE / "watersmeet" / fault.file
    text, times = file.read_text(), file.stat()
    assert text.count(fault.old) == 1, (
        f"{fault.name}: {fault.file} has changed; bring the catalogue up to date"
    )
    # Compiled code is good for all faults but those in it: Numba does not see what a function has called.
    numba = folder / ("numba-faulty" if "numba" in text else "numba")
    file.write_text(text.replace(fault.old, fault.new))
    try:
        return _first_failure(fault, folder / SOURCE, numba)
    finally:
        file.write_text(text)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # by which caches go


def _first_failure(fault: Fault, source: Path, numba: Path) -> str | None:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not spark", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(numba)}
    done = subprocess.run(
        [*command, *fault.finders], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        print(f"{done.stdout}{done.stderr}")  # a fault with which no test can run is found by none
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return failed[0] if failed else None


def main() -> int:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    unnoticed = []
    with tempfile.TemporaryDirectory(prefix="watersmeet-faults-") as folder:
        left_out = shutil.ignore_patterns("*.nbi", "*.nbc", "*.egg-info", "__pycache__")
        shutil.copytree(ROOT / "src", Path(folder) / SOURCE, ignore=left_out)
        for fault in FAULTS:
            if wanted in fault.name:
                found = finder_of(fault, Path(folder))
                print(
                    f"{'found' if found else 'NOT FOUND':>9}  {fault.name}: {found or fault.file}", flush=True
                )
                unnoticed += [] if found else [fault.name]
    print(f"{len(unnoticed)} faults went unnoticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
