"""Marks of links count as far as files are there without a gap."""

from __future__ import annotations

import itertools
import json

import pytest

from watersmeet.errors import DataError
from watersmeet.kernel import LinkMarks

FILES = [(3, -1, {"a": 10}), (5, 3, {"a": 20, "#1": 5}), (9, 5, {"#1": 15})]


@pytest.mark.parametrize("order", list(itertools.permutations(FILES)))
def test_files_may_be_read_in_any_order(order: tuple[tuple[int, int, dict[str, int]], ...]) -> None:
    links, arrived = LinkMarks(), set[int]()
    known: dict[str, int] = {}
    for number, previous, marks in order:
        links.take("paris", number, previous, marks)
        links = LinkMarks.restore(json.loads(json.dumps(links.snapshot())))
        arrived.add(number)
        known |= links.due()
        whole = list(itertools.takewhile(lambda file: file[0] in arrived, FILES))
        expected: dict[str, int] = {}
        for _, _, marks in whole:
            expected |= marks
        assert known == expected


def test_a_file_that_comes_twice_is_refused() -> None:
    links = LinkMarks()
    links.take("paris", 3, -1, {"a": 10})
    with pytest.raises(DataError, match="brings file 4 twice"):
        links.take("paris", 4, -1, {"a": 11})
    assert links.due() == {"a": 10}
    with pytest.raises(DataError, match="brings file 3 twice"):
        links.take("paris", 3, -1, {"a": 10})
