"""A `Tree` on any file system that Spark reaches, and which of the two a path is served by."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

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

        names: list[str] = self._with(folder, listed)
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

        found: list[str] = self._with(folder, listed)
        return sorted(name for name in found if not any(p.startswith(HIDDEN) for p in name.split("/")))

    def read(self, path: str) -> str | None:
        found = self.content(path)
        return None if found is None else found.decode("utf-8")

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

        found: bytes | None = self._with(path, read)
        return found

    def create(self, path: str, text: str) -> bool:
        def created(files: Any, path: Any) -> bool:
            if files.exists(path):
                return False
            draft = self._jvm.Path(path.getParent(), f".{path.getName()}.{secrets.token_hex(4)}.tmp")
            stream = files.create(draft, False)
            stream.write(bytearray(text.encode("utf-8")))
            stream.close()
            try:
                self._rename(draft, path, "NONE")
            except Py4JJavaError as error:
                files.delete(draft, False)
                if "FileAlreadyExists" in str(error.java_exception.getClass().getName()):
                    return False
                raise
            return True

        made: bool = self._with(path, created)
        return made

    def move(self, source: str, target: str) -> None:
        def moved(files: Any, path: Any) -> None:
            if files.exists(path):
                place = self._jvm.Path(f"{self.root}/{target}")
                files.mkdirs(place.getParent())
                self._rename(path, place, "OVERWRITE")

        self._with(source, moved)

    def remove(self, path: str) -> None:
        self._with(path, lambda files, path: files.delete(path, True))

    def _with(self, name: str, act: Callable[[Any, Any], Any]) -> Any:
        path = self._jvm.Path(f"{self.root}/{name}")
        try:
            return act(path.getFileSystem(self._settings), path)
        except Py4JJavaError as error:
            raise OSError(str(error.java_exception.toString()).split("\n")[0]) from None

    def _rename(self, source: Any, target: Any, how: str) -> None:
        gateway: Any = self.spark.sparkContext._gateway
        kind = getattr(self._jvm, "Options$Rename")
        options = gateway.new_array(kind, 1)
        options[0] = getattr(kind, how)
        context = self._jvm.FileContext.getFileContext(target.toUri(), self._settings)
        context.rename(source, target, options)

    @property
    def _jvm(self) -> Any:
        jvm: Any = self.spark.sparkContext._jvm
        return jvm.org.apache.hadoop.fs

    @property
    def _settings(self) -> Any:
        context: Any = self.spark.sparkContext._jsc
        return context.hadoopConfiguration()
