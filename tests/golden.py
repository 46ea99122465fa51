"""Golden texts: files beside the tests that say word for word what a person is shown.

WATERSMEET_GOLDEN=write writes them again; read the difference before keeping it.
"""

from __future__ import annotations

import os
from pathlib import Path


def check_golden(path: Path, text: str) -> None:
    """The text is what its golden file holds, and a line's end."""
    if os.environ.get("WATERSMEET_GOLDEN") == "write":
        path.write_text(f"{text}\n", encoding="utf-8")
    assert f"{text}\n" == path.read_text(encoding="utf-8")
