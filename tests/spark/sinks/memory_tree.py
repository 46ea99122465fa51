"""Storage in memory for protocols of commits, with a crash or a pause before any of its operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


class Crash(Exception):  # noqa: N818
    """The driver is gone; what it has made durable stays."""


@dataclass
class Disk:
    """What survives a crash: texts by path."""

    texts: dict[str, str] = field(default_factory=dict)


@dataclass
class MemoryTree:
    """A `Tree` over a disk; `before_step` is called before each step that makes a difference on it."""

    disk: Disk
    before_step: Callable[[], None] = lambda: None

    def names(self, folder: str) -> list[str]:
        below = (path.removeprefix(f"{folder}/") for path in self.disk.texts if path.startswith(f"{folder}/"))
        return sorted({path.partition("/")[0] for path in below})

    def files(self, folder: str) -> list[str]:
        below = (path.removeprefix(f"{folder}/") for path in self.disk.texts if path.startswith(f"{folder}/"))
        return sorted(path for path in below if not any(part[0] in "._" for part in path.split("/")))

    def read(self, path: str) -> str | None:
        return self.disk.texts.get(path)

    def content(self, path: str, *, at_most: int) -> bytes | None:
        text = self.disk.texts.get(path)
        found = None if text is None else text.encode()
        return found if found is not None and len(found) <= at_most else None

    def size(self, path: str) -> int:
        return len(self.disk.texts[path])

    def create(self, path: str, text: str) -> bool:
        self.before_step()
        if path in self.disk.texts:
            return False
        self.disk.texts[path] = text
        return True

    def sync(self, folder: str) -> None:
        """A crash of the process loses nothing that was written."""

    def move(self, source: str, target: str) -> None:
        self.before_step()
        if source in self.disk.texts:
            self.disk.texts[target] = self.disk.texts.pop(source)

    def remove(self, path: str) -> None:
        for each in [each for each in self.disk.texts if each == path or each.startswith(f"{path}/")]:
            self.before_step()  # a folder is removed file by file
            self.disk.texts.pop(each, None)


@dataclass
class CrashAt:
    """Crashes before the step of this number, counted from 0."""

    step: int
    steps: int = 0

    def __call__(self) -> None:
        if self.steps == self.step:
            raise Crash
        self.steps += 1
