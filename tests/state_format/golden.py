"""Golden files of the state format, one folder for each version of it."""

from __future__ import annotations

import difflib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from watersmeet.plan.state_format import STATE_FORMAT

GOLDEN = Path(__file__).parent / "golden"


def compare(name: str, described: dict[str, Any]) -> None:
    """Fails if what is described differs from the golden file of this version, and says what to do."""
    path = GOLDEN / str(STATE_FORMAT) / f"{name}.json"
    text = _flat(json.dumps(described, indent=1, ensure_ascii=False)) + "\n"
    if os.environ.get("WATERSMEET_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if not path.exists():
        pytest.fail(f"state format {STATE_FORMAT} has no {path.name}. {_what_to_do()}")
    if path.read_text() != text:
        change = _diff(path.read_text().splitlines(), text.splitlines())
        pytest.fail(f"{path.name} of state format {STATE_FORMAT} differs. {_what_to_do()}\n{change}")


def _flat(text: str) -> str:
    """JSON with lists and objects that hold no others in one line each."""
    return re.sub(r"(?<=[\[{])[^\[\]{}]*(?=[\]}])", lambda inner: " ".join(inner[0].split()), text)


def _diff(written: list[str], now: list[str]) -> str:
    return "\n".join(difflib.unified_diff(written, now, "written before", "written now", lineterm="", n=2))


def _what_to_do() -> str:
    return (
        "State that an older version wrote would no longer be read, or be read wrongly. If this was not "
        "meant, take it back. If it was:\n"
        f"  1. raise STATE_FORMAT in src/watersmeet/plan/state_format.py to {STATE_FORMAT + 1}, unless no "
        f"version that writes {STATE_FORMAT} has been released;\n"
        "  2. WATERSMEET_GOLDEN=write pytest tests/state_format -m 'not spark' writes golden files of the "
        "new version: read the difference;\n"
        "  3. python -m tests.state_format.make_checkpoint adds a checkpoint of the new version to the "
        "resume test; leave the old ones, which must be refused in clear words."
    )
