"""Tables through Spark: joined with tuples as they arrive, and read again when their files change."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions

PIPELINE = """
CREATE STREAM s1 (k BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 's1', event_time = 'ts');
CREATE STREAM s2 (k BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 's2', event_time = 'ts');
CREATE TABLE kinds (id BIGINT, name STRING)
  WITH (format = 'csv', path = 'kinds', header = 'true', reload = '10 milliseconds');
CREATE SINK out WITH (format = 'json', path = 'out');
INSERT INTO out
SELECT a.k, a.name FROM s2 [RANGE 1 MINUTE] AS b,
  (SELECT s1.*, kinds.name FROM s1 LEFT JOIN kinds ON s1.k = kinds.id) [RANGE 1 MINUTE] AS a WHERE a.k = b.k
"""


def write(folder: Path, number: int, keys: list[int]) -> None:
    for name in ("s1", "s2"):
        rows = [json.dumps({"k": k, "ts": "2026-01-01T00:00:00Z"}) for k in keys]
        draft = folder / name / f"_{number}"
        draft.write_text("\n".join(rows))
        draft.rename(folder / name / f"{number}.json")


def test_a_table_is_read_again_when_its_files_have_changed(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("s1", "s2", "kinds"):
        (tmp_path / name).mkdir()
    (tmp_path / "kinds" / "a.csv").write_text("id,name\n1,one\n2,two\n")
    (tmp_path / "pipeline.sql").write_text(PIPELINE)
    write(tmp_path, 1, [1, 3])
    notices: list[str] = []

    def answers() -> set[tuple[int, str | None]]:
        lines = [line for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
        return {(each["k"], each.get("name")) for each in map(json.loads, lines)}

    run = Session(spark).start(tmp_path / "pipeline.sql", options=RunOptions())

    def follow(until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        run.follow(
            lambda _, progress: notices.append(progress.notice),
            until=lambda: until() or time.monotonic() > deadline,
        )

    try:
        follow(lambda: len(answers()) == 2)
        assert answers() == {(1, "one"), (3, None)}
        (tmp_path / "kinds" / "a.csv").unlink()
        (tmp_path / "kinds" / "b.csv").write_text("id,name\n3,three\n4,four\n")
        run.jobs[0].poll()  # looks at the files
        write(tmp_path, 2, [3, 4, 2])
        follow(lambda: len(answers()) >= 5 and any(notices))
    finally:
        run.stop()
    # What has come before the change keeps the name it was given then.
    assert answers() == {(1, "one"), (3, None), (3, "three"), (4, "four"), (2, None)}
    assert "table kinds is read again: its files have changed" in notices
