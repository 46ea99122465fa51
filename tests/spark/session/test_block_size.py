"""The size of blocks is a setting of the session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.spark.session.block_size import BLOCK, session_tuning
from watersmeet.spark.tuning import DEFAULT


def session(block: str | None = None) -> Any:
    return SimpleNamespace(conf={} if block is None else {BLOCK: block})


def test_a_session_says_how_large_blocks_are() -> None:
    assert session_tuning(session()) == DEFAULT
    assert session_tuning(session(block="16MiB")).kernel.block_bytes == 16 << 20


@pytest.mark.parametrize(
    ("text", "said"),
    [("many", "'many' is not a size: write a number and a unit"), ("10kB", "10kB: write 1MB or more")],
)
def test_a_size_that_will_not_do_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        session_tuning(session(block=text))
