"""Small text files in a folder that may be on this machine's disk or on any file system Spark reaches."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from watersmeet.spark.storage.disk import make_private, open_private, sync_folder
from watersmeet.spark.storage.hadoop_files import HadoopFiles
from watersmeet.spark.storage.paths import local_path


def write_whole(path: Path, text: str, draft: Path) -> None:
    """Writes a file on this machine's disk whole, or not at all, for its owner's eyes alone.

    It is there after a crash of the machine too. `draft` is hidden, so that a source that reads the folder
    ignores it.
    """
    make_private(path.parent)
    try:
        with open_private(draft, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)  # a full disk is not filled further with drafts
        raise
    sync_folder(path.parent)


@dataclass(frozen=True)
class Folder:
    """Reads and writes by name; what fails is an OSError wherever the folder is."""

    spark: SparkSession
    path: str

    def holds(self, pattern: str) -> bool:
        """Whether there is a file or folder of this name, which may have wildcards."""
        if (local := self._local) is not None:
            return any(local.glob(pattern))
        return bool(self._remote.act(pattern, lambda files, path: len(files.globStatus(path) or ())))

    def names(self, pattern: str) -> list[str]:
        """The names, without their folders, of what matches a pattern."""
        if (local := self._local) is not None:
            return [path.name for path in local.glob(pattern)]
        found = self._remote.act(pattern, lambda files, path: files.globStatus(path) or ())
        return [str(status.getPath().getName()) for status in found]

    def read(self, name: str) -> str | None:
        """The text of a file, or None if there is none."""
        if (local := self._local) is not None:
            try:
                return (local / name).read_text(encoding="utf-8")
            except FileNotFoundError:
                return None
        return self._remote.read(name)

    def write(self, name: str, text: str) -> None:
        """Writes a file whole, or not at all."""
        if (local := self._local) is None:
            self._remote.act(name, lambda files, path: self._write_remote(files, path, text))
            return
        path = local / name
        write_whole(path, text, path.with_name(f".{path.name}.tmp"))

    def make(self, name: str) -> None:
        """Makes a folder inside, unless there is one."""
        if (local := self._local) is not None:
            make_private(local / name)
        else:
            self._remote.act(name, lambda files, path: files.mkdirs(path))

    @property
    def _local(self) -> Path | None:
        return local_path(self.path)

    @property
    def _remote(self) -> HadoopFiles:
        return HadoopFiles(self.spark, self.path)

    def _write_remote(self, files: Any, path: Any, text: str) -> None:
        draft = self._remote.beside(path, f".{path.getName()}.tmp")
        stream = files.create(draft, True)
        stream.write(bytearray(text.encode("utf-8")))
        stream.close()
        self._remote.rename(draft, path, "OVERWRITE")
