"""The page on testing shows what runs: its blocks are run in order, and its tests called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.paths import ROOT


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_the_examples_of_the_page_run(no_java: None) -> None:
    shop = next(block for block in _blocks("README.md", "sql") if "fulfilled" in block)
    Path("shop.sql").write_text(shop)
    names: dict[str, Any] = {}
    blocks = _blocks("docs/testing.md", "python")
    for block in blocks:
        exec(compile(block, "docs/testing.md", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    for test in tests:
        test()
    assert (len(blocks), len(tests)) == (3, 3)
