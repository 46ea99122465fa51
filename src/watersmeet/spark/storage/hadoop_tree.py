"""A `Tree` on any file system that Spark reaches, and which of the two a path is served by."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from watersmeet.spark.storage.hadoop_files import HadoopFiles
from watersmeet.spark.storage.paths import local_path
from watersmeet.spark.storage.tree import HIDDEN, LocalTree, Tree


def open_tree(spark: SparkSession, path: str) -> Tree:
    """The files below a path, wherever it is."""
    local = local_path(path)
    return HadoopTree(spark, path) if local is None else LocalTree(local)


@dataclass(frozen=True)
class HadoopTree:
    """A folder of a Hadoop file system.

    A file is renamed by one operation in HDFS. In an object store it is copied and then removed: a reader
    sees the whole file or none there too, and a copy that a crash cut short is made again.
    """

    spark: SparkSession
    root: str

    def names(self, folder: str) -> list[str]:
        def listed(files: Any, path: Any) -> list[str]:
            found = files.listStatus(path) if files.exists(path) else ()
            return sorted(str(status.getPath().getName()) for status in found)

        names: list[str] = self._files.act(folder, listed)
        return names

    def files(self, folder: str) -> list[str]:
        def listed(files: Any, path: Any) -> list[str]:
            if not files.exists(path):
                return []
            start = len(str(files.makeQualified(path).toString())) + 1
            each, found = files.listFiles(path, True), []
            while each.hasNext():
                found.append(str(each.next().getPath().toString())[start:])
            return found

        found: list[str] = self._files.act(folder, listed)
        return sorted(name for name in found if not any(p.startswith(HIDDEN) for p in name.split("/")))

    def read(self, path: str) -> str | None:
        return self._files.read(path)

    def content(self, path: str, *, at_most: int | None = None) -> bytes | None:
        def read(files: Any, path: Any) -> bytes | None:
            if not files.exists(path):
                return None
            if at_most is not None and files.getFileStatus(path).getLen() > at_most:
                return None
            stream = files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

        found: bytes | None = self._files.act(path, read)
        return found

    def size(self, path: str) -> int:
        return int(self._files.act(path, lambda files, path: files.getFileStatus(path).getLen()))

    def create(self, path: str, text: str) -> bool:
        def created(files: Any, path: Any) -> bool:
            if files.exists(path):
                return False
            draft = self._files.beside(path, f".{path.getName()}.{secrets.token_hex(4)}.tmp")
            stream = files.create(draft, False)
            stream.write(bytearray(text.encode("utf-8")))
            stream.close()
            try:
                self._files.rename(draft, path, "NONE")
            except Py4JJavaError as error:
                files.delete(draft, False)
                if "FileAlreadyExists" in str(error.java_exception.getClass().getName()):
                    return False
                raise
            return True

        made: bool = self._files.act(path, created)
        return made

    def sync(self, folder: str) -> None:
        """Nothing is left to do: a file that was closed is safe on HDFS and in an object store."""

    def move(self, source: str, target: str) -> None:
        def moved(files: Any, path: Any) -> None:
            if files.exists(path):
                place = self._files.path(target)
                files.mkdirs(place.getParent())
                self._files.rename(path, place, "OVERWRITE")

        self._files.act(source, moved)

    def remove(self, path: str) -> None:
        self._files.act(path, lambda files, path: files.delete(path, True))

    @property
    def _files(self) -> HadoopFiles:
        return HadoopFiles(self.spark, self.root)
