"""State that two tries of one task have uploaded is read back as one of them left it."""

from __future__ import annotations

import pytest

from tests.machine.state import FORMAT_SETTING, Executor, StateVersions, Version
from watersmeet.spark.session.environment import SETTINGS

BUCKET = (0, 0)


def read_back(versions: StateVersions) -> tuple[object, object]:
    """The state that one executor has built on its own try, and what another reads of it.

    Both tries of batch 0 commit; the driver counts the first, and the other is believed dead.
    """
    winner, zombie, reader = Executor(), Executor(), Executor()
    first = versions.commit(winner, BUCKET, 1, {}, {("log", ("chunk 0",)): "ab", ("log", ("chunk 1",)): "cd"})
    versions.commit(zombie, BUCKET, 1, {}, {("log", ("chunk 0",)): "cd", ("log", ("chunk 1",)): "ab"})
    before = versions.load(winner, BUCKET, first)
    after = {("log", ("chunk 1",)): before["log", ("chunk 1",)]}  # chunk 0 has expired
    second = versions.commit(winner, BUCKET, 2, before, after)
    return after, versions.load(reader, BUCKET, second)


def test_sessions_have_the_format_in_which_a_later_version_has_one_past() -> None:
    written, read = read_back(StateVersions(SETTINGS))
    assert read == written


def test_in_the_first_format_a_version_may_be_read_on_top_of_the_other_try() -> None:
    written, read = read_back(StateVersions({FORMAT_SETTING: "1"}))
    assert read != written
    with pytest.raises(KeyError):
        StateVersions(SETTINGS).load(Executor(), BUCKET, Version(1, commit=99))
