"""What makes a declared name a table and not a stream: its rows are valid always."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """How often its files are looked at for a change, None for never; its rows, where a test gives them."""

    reload_us: int | None = None
    rows: tuple[tuple[Any, ...], ...] = ()
