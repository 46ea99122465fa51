"""The figures by name, what is written of them, and what their JSON keeps."""

from __future__ import annotations

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.lab.figures.figure import Claim, FigureResult
from watersmeet.lab.figures.registry import figure, figure_titles, run_figure

RJOIN = [f"rjoin-{number}" for number in range(2, 10)]


def test_the_papers_figures_are_registered() -> None:
    assert set(RJOIN) <= set(figure_titles())


def test_an_unknown_figure_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigurationError, match="rjoin-2"):
        run_figure("rjoin-1")


def test_two_figures_cannot_share_a_name() -> None:
    figure_titles()
    with pytest.raises(ConfigurationError, match="two figures"):
        figure("rjoin-2", "another")(lambda quick, seed, runner: FigureResult("rjoin-2", {}, (), ()))


def test_json_has_no_infinity() -> None:
    result = FigureResult("x", {}, (), (Claim("so", False, {"times": [float("inf"), 1.5]}),))
    assert result.to_dict()["claims"][0]["value"] == {"times": [None, 1.5]}


def test_claims_keep_their_reasons() -> None:
    result = FigureResult("x", {}, (), (Claim("so", False, 2, "because"), Claim("thus", True, 1)))
    assert result.to_dict()["claims"] == [
        {"text": "so", "holds": False, "value": 2, "why": "because"},
        {"text": "thus", "holds": True, "value": 1},
    ]
