"""One run at a time on a checkpoint, on this machine's disk or elsewhere; no crash leaves a lock behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.mounts import mount
from watersmeet.errors import ConfigurationError
from watersmeet.spark.jobs import lease
from watersmeet.spark.jobs.run_lock import LEASE, LOCK, Holder, held_checkpoint, hold_checkpoint

# The lock that a JVM takes, taken by a process that starts faster; the text is what a run leaves there.
HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "a+")
fcntl.lockf(file, fcntl.LOCK_EX)
file.truncate(0)
file.write(sys.argv[2])
file.flush()
print("locked", flush=True)
time.sleep(600)
"""


@contextmanager
def held_by_another(path: Path, holder: Holder) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", HOLD, str(path), holder.to_text()]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "locked\n"
            yield process
        finally:
            process.kill()


def is_locked(path: Path) -> bool:
    """Whether another process finds the file locked."""
    ask = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    asked = subprocess.run([sys.executable, "-c", ask, str(path)], capture_output=True, check=False)
    return b"BlockingIOError" in asked.stderr


def test_a_second_run_in_another_process_is_refused_until_the_first_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    holder = Holder("elsewhere", 17, "2026-01-01 00:00:00 UTC", "a")
    with held_by_another(tmp_path / LOCK, holder):
        with pytest.raises(ConfigurationError) as refusal:
            hold_checkpoint(spark, str(tmp_path))
        assert str(refusal.value) == (
            f"the checkpoint {tmp_path} is in use by process 17 on elsewhere, since 2026-01-01 00:00:00 UTC. "
            "Only one run may use a checkpoint at a time: stop that one first, or use another checkpoint"
        )
    with held_checkpoint(spark, tmp_path.as_uri()):
        written = Holder.from_text((tmp_path / LOCK).read_text())
        assert written is not None
        assert written.pid == os.getpid()


def test_a_second_run_in_this_process_is_refused_until_the_first_has_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = hold_checkpoint(spark, str(tmp_path / "c"))
    with pytest.raises(ConfigurationError, match=rf"in use by this very process \({os.getpid()}\), since"):
        hold_checkpoint(spark, str(tmp_path / "c"))
    (tmp_path / "link").symlink_to(tmp_path / "c")
    with pytest.raises(ConfigurationError, match="in use by this very process"):
        hold_checkpoint(spark, str(tmp_path / "link"))
    assert is_locked(tmp_path / "c" / LOCK), "a refusal does not unlock it"
    with held_checkpoint(spark, str(tmp_path / "other")):
        first.check()
    first.release()
    first.release()
    assert not is_locked(tmp_path / "c" / LOCK)
    hold_checkpoint(spark, str(tmp_path / "c")).release()


def test_the_end_of_a_killed_programs_jvm_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    """The program has no process any more, but the lock is still held: by its JVM, which is about to end."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    me = hold_checkpoint(spark, str(tmp_path / "mine"))
    host = (Holder.from_text((tmp_path / "mine" / LOCK).read_text()) or Holder("", 0, "", "")).host
    me.release()
    with held_by_another(tmp_path / LOCK, Holder(host, gone.pid, "then", "a")) as jvm:
        killer = subprocess.Popen(["sh", "-c", f"sleep 1; kill -9 {jvm.pid}"])
        with held_checkpoint(spark, str(tmp_path)):
            assert jvm.wait(10) != 0, "not before it had ended"
        killer.wait()


def test_on_another_file_system_a_lease_is_held_and_a_dead_holder_replaced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_S", 0.4)
    remote = mount(spark, tmp_path)
    first = hold_checkpoint(spark, f"{remote}/c")
    with pytest.raises(ConfigurationError, match=rf"c is in use by this very process \({os.getpid()}\)"):
        hold_checkpoint(spark, f"{remote}/c")
    first.release()
    hold_checkpoint(spark, f"{remote}/c").release()
    claims = tmp_path / "mounted" / "c" / LEASE
    assert sorted(path.name for path in claims.glob("[!.]*-2")) == ["claim-2", "free-2"]
    (claims / "free-2").unlink()  # as if it had been killed
    with held_checkpoint(spark, f"{remote}/c") as third:
        third.check()
        assert (claims / "claim-3").exists()
        assert not (claims / "claim-2").exists()
