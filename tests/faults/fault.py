"""A fault: an edit that makes the engine wrong, and the tests that must find it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """An edit of one file that makes the engine wrong."""

    name: str
    file: str  # below src/watersmeet
    old: str  # occurs once in the file
    new: str
    finders: tuple[str, ...] = ("tests/testing", "tests/kernel/multiquery")  # the tests that must find it
