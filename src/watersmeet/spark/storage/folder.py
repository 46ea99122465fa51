"""Small text files in a folder that may be on this machine's disk or on any file system Spark reaches."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from watersmeet.spark.storage.paths import local_path


def write_whole(path: Path, text: str, draft: Path) -> None:
    """Writes a file on this machine's disk whole, or not at all.

    `draft` is hidden, so that a source that reads the folder ignores it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


@dataclass(frozen=True)
class Folder:
    """Reads and writes by name; what fails is an OSError wherever the folder is."""

    spark: SparkSession
    path: str

    def holds(self, pattern: str) -> bool:
        """Whether there is a file or folder of this name, which may have wildcards."""
        if (local := self._local) is not None:
            return any(local.glob(pattern))
        return bool(self._remote(lambda files, path: len(files.globStatus(path) or ()), pattern))

    def names(self, pattern: str) -> list[str]:
        """The names, without their folders, of what matches a pattern."""
        if (local := self._local) is not None:
            return [path.name for path in local.glob(pattern)]
        found = self._remote(lambda files, path: files.globStatus(path) or (), pattern)
        return [str(status.getPath().getName()) for status in found]

    def read(self, name: str) -> str | None:
        """The text of a file, or None if there is none."""
        if (local := self._local) is not None:
            try:
                return (local / name).read_text(encoding="utf-8")
            except FileNotFoundError:
                return None
        text: str | None = self._remote(self._read_remote, name)
        return text

    def write(self, name: str, text: str) -> None:
        """Writes a file whole, or not at all."""
        if (local := self._local) is None:
            self._remote(lambda files, path: self._write_remote(files, path, text), name)
            return
        path = local / name
        write_whole(path, text, path.with_name(f".{path.name}.tmp"))

    def make(self, name: str) -> None:
        """Makes a folder inside, unless there is one."""
        if (local := self._local) is not None:
            (local / name).mkdir(parents=True, exist_ok=True)
        else:
            self._remote(lambda files, path: files.mkdirs(path), name)

    @property
    def _local(self) -> Path | None:
        return local_path(self.path)

    def _remote(self, act: Any, name: str) -> Any:
        path = self._jvm.Path(f"{self.path}/{name}")
        try:
            return act(path.getFileSystem(self._settings), path)
        except Py4JJavaError as error:
            raise OSError(str(error.java_exception.toString()).split("\n")[0]) from None

    def _read_remote(self, files: Any, path: Any) -> str | None:
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return bytes(stream.readAllBytes()).decode("utf-8")
        finally:
            stream.close()

    def _write_remote(self, files: Any, path: Any, text: str) -> None:
        draft = self._jvm.Path(path.getParent(), f".{path.getName()}.tmp")
        stream = files.create(draft, True)
        stream.write(bytearray(text.encode("utf-8")))
        stream.close()
        gateway: Any = self.spark.sparkContext._gateway
        rename = getattr(self._jvm, "Options$Rename")
        over = gateway.new_array(rename, 1)
        over[0] = rename.OVERWRITE
        self._jvm.FileContext.getFileContext(path.toUri(), self._settings).rename(draft, path, over)

    @property
    def _jvm(self) -> Any:
        jvm: Any = self.spark.sparkContext._jvm
        return jvm.org.apache.hadoop.fs

    @property
    def _settings(self) -> Any:
        context: Any = self.spark.sparkContext._jsc
        return context.hadoopConfiguration()
