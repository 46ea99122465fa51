"""Hadoop's files as the driver reaches them through Spark's JVM: what is read, renamed or asked there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession


@dataclass(frozen=True)
class HadoopFiles:
    """Files below a root, by paths relative to it; what fails is an OSError."""

    spark: SparkSession
    root: str

    def act(self, name: str, act: Callable[[Any, Any], Any]) -> Any:
        """What `act` returns for the file system and the path."""
        path = self.path(name)
        try:
            return act(path.getFileSystem(self._settings), path)
        except Py4JJavaError as error:
            raise OSError(str(error.java_exception.toString()).split("\n")[0]) from None

    def path(self, name: str) -> Any:
        """A path below the root, as Hadoop has it."""
        return self._jvm.Path(f"{self.root}/{name}")

    def beside(self, path: Any, name: str) -> Any:
        """A path in the folder of another."""
        return self._jvm.Path(path.getParent(), name)

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is none."""

        def text(files: Any, path: Any) -> str | None:
            if not files.exists(path):
                return None
            stream = files.open(path)
            try:
                return bytes(stream.readAllBytes()).decode("utf-8")
            finally:
                stream.close()

        found: str | None = self.act(name, text)
        return found

    def rename(self, source: Any, target: Any, how: str) -> None:
        """Renames a file; `how` is OVERWRITE, or NONE where a target may not be there yet."""
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
