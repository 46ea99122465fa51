"""The folders are the architecture: each says what it is for, none is crowded, documents name them all."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.paths import DOCS, ROOT

SOURCE = ROOT / "src" / "watersmeet"
PACKAGES = sorted(file.parent for file in SOURCE.rglob("__init__.py"))
MOST_MODULES = 15
MOST_LINES = 400
MOST_FUNCTION_LINES = 60


def name_of(package: Path) -> str:
    return package.relative_to(SOURCE).as_posix()


def purpose_of(package: Path) -> str:
    """The first paragraph of a package's docstring."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    return " ".join(text.split("\n\n")[0].split())


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_a_package_says_what_it_is_for_and_is_not_crowded(package: Path) -> None:
    assert purpose_of(package).endswith("."), f"{name_of(package)} does not say what it is for"
    modules = [file for file in package.glob("*.py") if file.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES


def test_contributing_lists_every_package_in_order() -> None:
    listed = re.findall(r"^\| `([\w/]+)/` \| (.+) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert listed == [(name_of(package), purpose_of(package)) for package in PACKAGES if package != SOURCE]


def test_tests_mirror_the_source() -> None:
    """A folder of tests is a folder of the source, or holds tests of something that is none."""
    others = {"faults", "machine", "examples", "state_format", "spark/kafka", "sql/golden", "testing"}
    found = {
        folder.relative_to(ROOT / "tests").as_posix()
        for folder in (ROOT / "tests").rglob("*")
        if folder.is_dir() and any(folder.glob("test_*.py"))
    }
    assert found - others <= {name_of(package) for package in PACKAGES}


def test_files_and_functions_are_short() -> None:
    long = []
    for file in SOURCE.rglob("*.py"):
        text = file.read_text()
        if text.count("\n") > MOST_LINES:
            long.append(f"{file.relative_to(SOURCE)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.body[0].lineno + 1  # options of a command are declared above
                if lines > MOST_FUNCTION_LINES:
                    long.append(f"{file.relative_to(SOURCE)}: {node.name} has {lines} lines")
    assert not long


def test_the_way_of_a_tuple_names_files_and_functions_that_exist() -> None:
    text = (DOCS / "architecture.md").read_text()
    steps = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \| `([\w.]+)` \|", text, re.MULTILINE)
    assert 10 <= len(steps) < 30
    assert len({file for file, _ in steps}) < 20
    for file, function in steps:
        names = {
            node.name
            for node in ast.walk(ast.parse((SOURCE / file).read_text()))
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        assert set(function.split(".")) <= names, f"{file} has no {function}"


def test_what_the_architecture_page_says_to_touch_exists() -> None:
    text = (DOCS / "architecture.md").read_text()
    for name in re.findall(r"`((?:[\w]+/)+[\w]*(?:\.py|\.json)?/?)`", text):
        if name.startswith(("tests/", "docs/", "benchmarks/")):
            assert (ROOT / name).exists(), name
        else:
            assert (SOURCE / name).exists(), name
