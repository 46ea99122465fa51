"""What has run beside what was predicted and simulated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.paths import EXAMPLES
from tests.plan.papers import example
from watersmeet.cli import main
from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.advice import SiteAdvice, SiteOption, advise_sites
from watersmeet.plan.sites.change_over import Tenure
from watersmeet.plan.sites.placement import place
from watersmeet.plan.sites.site_program import SiteProgram, site_programs
from watersmeet.plan.statistics import Statistics, StreamStatistics, read_statistics
from watersmeet.sites.measured import measured_run
from watersmeet.sites.plan_changes import PLANS, ChangedPlan, PlanChanges
from watersmeet.spark.sites.link_record import LinkCounts, Sent, sent_to_json
from watersmeet.sql import parse_pipeline

EXAMPLE = EXAMPLES / "sites" / "pmjoin-example-1"


def ran(folder: Path) -> tuple[SiteAdvice, SiteOption]:
    """A checkpoint that says that a plan has run, with ten rows over each of its sends in ten seconds."""
    (query,) = parse_pipeline((EXAMPLE / "pipeline.sql").read_text()).queries
    statistics = read_statistics(EXAMPLE / "pipeline.stats.json")
    advice = advise_sites(query, statistics)
    option = next(one for one in advice.options if one.name == "simple, all at n2")
    for program in site_programs(query, place(query, option.plan)).values():
        part = folder / "sites" / program.site / "out"
        (part / "links").mkdir(parents=True)
        (part / "site.json").write_text(json.dumps({"plan": program.fingerprint}))
        for target in program.targets:
            (part / "links" / f"{target}.json").write_text(json.dumps(sent_to_json(_sent(program, target))))
    return advice, option


def _sent(program: SiteProgram, target: str) -> Sent:
    names = [send.name for send in program.sends if send.target == target]
    counts = LinkCounts(
        rows=dict.fromkeys(names, 10),
        chunk_bytes=dict.fromkeys(names, 200),
        framed_bytes=500,
        batches=1,
        messages=1,
        first_us=0,
        last_us=10**7,
    )
    return Sent().with_batch(0, counts)


def test_the_plan_that_ran_is_found_and_measured_beside_its_prediction(tmp_path: Path) -> None:
    advice, option = ran(tmp_path)
    run = measured_run(advice, "out", str(tmp_path))
    assert run.option.name == option.name
    assert [run.per_second(way) for way in option.by_link()] == [1.0, 1.0]
    head, columns, *links, total, hint = run.pretty().splitlines()
    assert head == "measured: simple, all at n2, 10 s of event time"
    assert columns.split() == ["bytes/s", "predicted", "simulated", "measured", "shipped", "framed", "rows/s"]
    assert len(links) == 2
    assert total.split()[2:] == ["-", "2", "40", "100", "2"]
    assert "--simulate 60s" in hint
    assert [one["measured_bytes_per_s"] for one in run.to_json()["links"]] == [1.0, 1.0]


def test_of_plans_that_took_over_the_newest_is_measured(tmp_path: Path) -> None:
    """Its statistics are those it follows from, not those that the command was given."""
    advice, option = ran(tmp_path)
    for part in tmp_path.glob("sites/*/out"):
        part.rename(part.with_name("out@1"))
    statistics = read_statistics(EXAMPLE / "pipeline.stats.json")
    changed = ChangedPlan(option.name, statistics, Tenure(since_us=10))
    (tmp_path / PLANS).write_text(PlanChanges().with_change("out", changed).to_text())
    others = {name: StreamStatistics(50, 3, one.site) for name, one in statistics.streams.items()}
    other = advise_sites(advice.query, Statistics(others))
    run = measured_run(other, "out", str(tmp_path))
    assert (run.option.name, run.bill.priced_bytes) == (option.name, 20.0)


def test_a_run_by_other_statistics_is_refused(tmp_path: Path) -> None:
    advice, _ = ran(tmp_path)
    for file in tmp_path.glob("sites/*/out/site.json"):
        file.write_text(json.dumps({"plan": "0123"}))
    with pytest.raises(ConfigurationError, match="plan 0123, which is none that these statistics give"):
        measured_run(advice, "out", str(tmp_path))


def test_what_has_not_run_is_refused(tmp_path: Path) -> None:
    query, statistics = example("pmjoin-example-1")
    with pytest.raises(ConfigurationError, match="no site of out has run yet"):
        measured_run(advise_sites(query, statistics), "out", str(tmp_path))


def test_prediction_simulation_and_run_stand_side_by_side(
    tmp_path: Path, no_java: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the plan that ran, which is not the one advised."""
    for name in ("pipeline.sql", "pipeline.stats.json"):
        shutil.copy(EXAMPLE / name, tmp_path / name)
    ran(tmp_path / ".watersmeet" / "pipeline")
    words = ["explain", str(tmp_path / "pipeline.sql"), "--sites", "--measured", "--simulate", "2s"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code in (0, None)
    text = capsys.readouterr().out
    assert "measured: simple, all at n2, 10 s of event time" in text
    table = text[text.index("measured: ") :]
    assert "simulated" in table
    assert "--simulate" not in table
    assert " - " not in table


def test_measured_goes_with_sites(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["explain", "pipeline.sql", "--measured"])
    assert "--measured is about runs across sites" in " ".join(capsys.readouterr().err.split())
