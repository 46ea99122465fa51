"""A pipeline file and what lies beside it: its text, its checkpoint, its statistics."""

from __future__ import annotations

from pathlib import Path

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.plan.statistics.file import read_statistics
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Pipeline, Query
from watersmeet.spark.storage.paths import has_scheme


def read_text(path: Path) -> str:
    """The text of a pipeline file; refuses one that cannot be read."""
    try:
        return path.read_text()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not a text file in UTF-8") from None


def name_queries(pipeline: Pipeline, file: Path | str) -> dict[str, Query]:
    """The queries of a file by the names they are shown and checkpointed under; refuses a file without any.

    The first query of a file that writes into `common` is `1-common`; one without a sink is `1-console`.
    """
    if not pipeline.queries:
        raise ConfigurationError(f"{file} declares streams but has no query: add a SELECT or INSERT INTO")
    return {f"{n}-{query.sink or 'console'}": query for n, query in enumerate(pipeline.queries, start=1)}


def default_checkpoint(file: Path) -> Path:
    """Where a pipeline keeps its state unless a checkpoint is named: beside its file."""
    return file.parent.absolute() / ".watersmeet" / file.stem


def absolute_checkpoint(checkpoint: Path | str) -> str:
    """A checkpoint's folder, independent of the working directory; a URL stays as it is."""
    text = str(checkpoint)
    return text if has_scheme(text) else str(Path(text).absolute())


def statistics_beside(file: Path) -> Statistics | None:
    """The statistics that `analyze` has left beside a pipeline file, if any."""
    path = file.with_suffix(".stats.json")
    return read_statistics(path) if path.exists() else None
