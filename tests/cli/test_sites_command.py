"""`watersmeet sites` and `run --site`: what is refused before any Spark starts, and a site that fails."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.paths import EXAMPLES
from watersmeet.cli import main

EXAMPLE = EXAMPLES / "sites" / "pmjoin-example-1"


@pytest.fixture
def pipeline(tmp_path: Path, no_java: None) -> Path:
    for name in ("pipeline.sql", "pipeline.stats.json"):
        shutil.copy(EXAMPLE / name, tmp_path / name)
    return tmp_path / "pipeline.sql"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--available-now",), "--available-now across sites goes with --flush"),
        (("--plan", "best"), "there is no such plan. Those that there are: pmjoin, by"),
    ],
)
def test_what_does_not_run_is_refused_at_once(
    pipeline: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    assert said in refused(capsys, "sites", str(pipeline), *options)


def test_options_of_one_place_do_not_go_with_a_site(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ("run", str(pipeline), "--site", "n1")
    assert "--state-limit is for queries at one place" in refused(capsys, *run, "--state-limit", "1GB")
    assert "--routing is for queries at one place" in refused(capsys, *run, "--routing", "shares")
    assert "it goes with --site" in refused(capsys, "run", str(pipeline), "--plan", "simple")


def test_a_site_that_cannot_start_stops_all_and_is_named(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here none of them finds Java."""
    with pytest.raises(SystemExit) as ended:
        main(["sites", str(pipeline), "--available-now", "--flush"])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "out: pmjoin, by hash, 3 partitions" in said
    assert "error: site n" in said
    assert "n1 -> n3" in said, "the bill is drawn up in any case"
