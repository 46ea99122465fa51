"""Each promise of the README names a test, and the test is there."""

from __future__ import annotations

import re

import pytest

from tests.paths import ROOT

NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "README.md").read_text())


def test_every_line_of_the_table_names_one() -> None:
    table = (ROOT / "README.md").read_text().split("| tested by |")[1].split("\n\n")[0]
    assert len(NAMED) == len(table.strip().splitlines()) - 1  # without the line under the heading
    assert len(NAMED) > 10


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda part: part.rpartition("/")[2])
def test_it_is_there(path: str, name: str) -> None:
    assert f"\ndef {name}(" in (ROOT / path).read_text()
