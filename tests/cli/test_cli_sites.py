"""`watersmeet explain --sites` as far as it goes without Java."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import Said
from tests.paths import ROOT

EXAMPLE = ROOT / "examples" / "papers" / "pmjoin-example-1.sql"
GOLDEN = ROOT / "tests" / "plan" / "explain" / "golden" / "sites-pmjoin-example-1.txt"


pytestmark = pytest.mark.usefixtures("no_java")


def pipeline(folder: Path, *sites: str) -> Path:
    """Two streams at these sites, without statistics."""
    file = folder / "two.sql"
    streams = [
        f"CREATE STREAM s{n} (k BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 's{n}', "
        f"event_time = 'ts'{site and f', site = {site!r}'});\n"
        for n, site in enumerate(sites)
    ]
    file.write_text(
        "".join(streams) + "SELECT a.k FROM s0 [RANGE 1 MINUTE] a, s1 [RANGE 1 MINUTE] b WHERE a.k = b.k;\n"
    )
    return file


def test_the_advice_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    said = Said(capsys, "explain", EXAMPLE, "--sites")
    assert (said.code, said.out) == (0, GOLDEN.read_text())


def test_the_documented_advice_is_what_comes_out(capsys: pytest.CaptureFixture[str]) -> None:
    document = (ROOT / "docs" / "explain.md").read_text()
    shown = document.split("```text\n")[1].split("\n```")[0]
    assert Said(capsys, "explain", EXAMPLE, "--sites").out.startswith(shown + "\n")


def test_without_sources_tuples_are_drawn_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    said = Said(capsys, "explain", EXAMPLE, "--sites", "--simulate", "20s", "--seed", 3)
    assert said.code == 0
    assert (
        "simulated 20 s of tuples drawn from the statistics (the source of s1 has no data: there is no"
        " data/s1), after 500 ms to fill the windows\n" in said.out
    )
    assert "\n  simple, all at n1  predicted 2,002 bytes, simulated " in said.out


def test_json_has_the_simulation_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    said = Said(capsys, "explain", EXAMPLE, "--sites", "--simulate", "10 s", "--json", "--svg", picture)
    data = json.loads(said.out)
    assert data["chosen"]["method"] == "pmjoin"
    simple = data["simulation"]["options"][1]
    assert simple["predicted_bytes"] == pytest.approx(1001.0)
    assert simple["simulated_bytes"] == pytest.approx(1001.0, rel=0.02)
    assert picture.read_text().startswith("<svg")


def test_the_interval_is_that_of_semijoin_plans(capsys: pytest.CaptureFixture[str]) -> None:
    """A longer one asks for fewer values: SM-D2 ships each value of a batch once."""
    option = "semijoin, linear, SM-S1 and SM-D2 only"
    shipped = []
    for interval in ("100ms", "10s"):
        data = json.loads(Said(capsys, "explain", EXAMPLE, "--sites", "--interval", interval, "--json").out)
        shipped += [
            one["bytes_per_s"] for one in data["options"] if f"{one['method']}, {one['detail']}" == option
        ]
    assert shipped[1] < shipped[0]


def test_sources_that_cannot_be_read_are_replaced_and_the_reason_is_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = pipeline(tmp_path, "paris", "oslo")
    known = {name: {"rate_per_s": 50, "attributes": {"k": {"distinct": 9}}} for name in ("s0", "s1")}
    file.with_suffix(".stats.json").write_text(json.dumps({"streams": known}))
    (tmp_path / "s0").mkdir()
    (tmp_path / "s1").mkdir()
    said = Said(capsys, "explain", file, "--sites", "--simulate", "5s")
    assert said.code == 0
    assert "(the sources cannot be read: Spark needs Java 17 or newer" in said.out


@pytest.mark.parametrize(
    ("sites", "arguments", "message"),
    [
        (
            ("paris", "oslo"),
            "--sites",
            "no statistics for s0, s1, and links are priced by measured rates: run `watersmeet analyze two",
        ),
        (("", ""), "--sites", "no stream of the query has a site: declare where s0, s1 arrive"),
        (("paris", ""), "--sites", "stream s1 has no site, the others have"),
        (("paris", "paris"), "--sites", "all streams are at one site, paris: nothing crosses a link"),
        (("paris", "oslo"), "--simulate 60s", "--simulate runs the advice on sites, so it goes with --sites"),
        (
            ("paris", "oslo"),
            "--sites --strategy pmjoin",
            "--sites compares all ways to join: leave out --strategy",
        ),
        (("paris", "oslo"), "--sites --simulate soon", "--simulate: 'soon' is not a duration"),
        (("paris", "oslo"), "--sites --simulate 0", "--simulate: a simulation takes some time"),
        (("paris", "oslo"), "--sites --interval 0", "--interval: an interval takes some time"),
        (("paris", "oslo"), "--sites --interval soon", "--interval: 'soon' is not a duration"),
        (("paris", "oslo"), "--interval 1s", "--interval is that of semijoin plans between sites, so it"),
    ],
)
def test_what_will_not_do_is_one_message(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sites: tuple[str, str], arguments: str, message: str
) -> None:
    pipeline(tmp_path, *sites)
    said = Said(capsys, "explain", "two.sql", *arguments.split())
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: {message}")
