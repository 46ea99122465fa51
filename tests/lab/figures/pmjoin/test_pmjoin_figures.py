"""PMJoin's figures (DASFAA 2006, section 4), made small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from watersmeet.lab.figures.files import write_figure
from watersmeet.lab.figures.pmjoin.attributes import QueryTask, draw_query, select_at_random
from watersmeet.lab.figures.pmjoin.costs import CostTask, Setting, price_and_simulate
from watersmeet.lab.figures.pmjoin.sweep import agreement_of
from watersmeet.lab.figures.registry import figure_titles, run_figure
from watersmeet.plan.sites.pmjoin.find_partition import find_partition
from watersmeet.plan.sites.pmjoin.pmjoin import unpartitioned_plan

FIGURES = ["pmjoin-1", *(f"pmjoin-{number}" for number in range(5, 12))]


def small(tasks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """Runs a figure's tasks over fewer streams and values, and for less time."""

    def shrunk(task: Any) -> Any:
        match task:
            case CostTask():
                setting = replace(
                    task.setting,
                    streams=min(task.setting.streams, 4),
                    values=min(task.setting.values, 50),
                    windows_s=(1.0, 2.0),
                    rates_per_s=(5.0, 50.0),
                )
                return replace(task, setting=setting, simulated_s=min(task.simulated_s, 1.0))
            case QueryTask():
                return replace(task, values=500, simulated_s=0.0 if task.attributes > 3 else 0.1)
            case (str(scheme), float(), int(seed)):
                return scheme, 50.0 if scheme != "pmjoin" else 5000.0, seed
        return task

    return [function(shrunk(task)) for task in tasks]


def test_the_figures_are_registered() -> None:
    assert set(FIGURES) <= set(figure_titles())


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_runs_and_is_written(name: str, tmp_path: Any) -> None:
    result = run_figure(name, quick=True, seed=2, runner=small)
    written = [path.suffix for path in write_figure(result, tmp_path)]
    assert {".json", ".csv", ".svg"} <= set(written)
    data = result.to_dict()
    assert data["parameters"]["seed"] == 2
    assert data["claims"]
    assert all(len(series["x"]) == len(series["y"]) > 0 for series in data["series"])
    assert any("simulated" in claim["text"] for claim in data["claims"])


def test_different_distributions_gain_more_and_finer_partitions_too() -> None:
    """Section 4.2, Figure 8, on one workload."""
    costs = {
        (likeness, number): price_and_simulate(CostTask(setting, partitions=number)).modelled
        for likeness, setting in (("similar", Setting(likeness="similar")), ("different", Setting()))
        for number in (1, 2, 100)
    }
    saved = {likeness: 1 - costs[likeness, 100] / costs[likeness, 1] for likeness in ("similar", "different")}
    assert saved["different"] > 10 * saved["similar"]
    assert costs["different", 100] < costs["different", 2] < costs["different", 1]


@pytest.mark.parametrize(("optimizer", "partitions"), [("simple", 1), ("heuristic", 1), ("heuristic", 20)])
def test_a_simulated_cost_is_the_modelled_one(optimizer: Any, partitions: int) -> None:
    setting = Setting(streams=4, values=100, windows_s=(0.5, 1.5), rates_per_s=(50.0, 200.0), seed=4)
    cost = price_and_simulate(CostTask(setting, optimizer=optimizer, partitions=partitions, simulated_s=2.0))
    assert cost.simulated == pytest.approx(cost.modelled, rel=0.08)


def test_leaving_out_what_crosses_no_link_changes_no_cost() -> None:
    setting = Setting(streams=4, values=50, windows_s=(0.5, 1.0), rates_per_s=(20.0, 100.0), seed=1)
    task = CostTask(setting, partitions=10, simulated_s=3.0)
    pruned, whole = price_and_simulate(task), price_and_simulate(replace(task, counts_routing=True))
    assert pruned.simulated == pytest.approx(whole.simulated, rel=0.08)
    assert whole.lookups_per_s > pruned.lookups_per_s


def test_a_random_selection_respects_the_constraints() -> None:
    join = draw_query(QueryTask(30_000, 6, 3))
    candidates = find_partition(join.model, unpartitioned_plan(join.model))
    assert len(candidates) > 1
    for seed in range(20):
        chosen = select_at_random(candidates, np.random.default_rng(seed))
        assert chosen
        for one in chosen:
            assert not any(node is other.operator for other in chosen for node in one.inputs)


def test_agreement_is_judged_by_the_median() -> None:
    assert agreement_of([(100.0, 101.0), (100.0, 99.0), (1.0, 3.0)]).holds
    claim = agreement_of([(100.0, 150.0), (100.0, 99.0), (1.0, 3.0)])
    assert not claim.holds
    assert claim.why
