"""A pipeline file and what lies beside it: its text, its checkpoint, its statistics."""

from __future__ import annotations

from pathlib import Path

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.plan.statistics.file import read_statistics
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Pipeline, Query
from watersmeet.spark.storage.paths import has_scheme
from watersmeet.sql import Source
from watersmeet.sql.query_names import check_answer_streams, name_run_queries


def read_text(path: Path) -> str:
    """The text of a pipeline file; refuses one that cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not a text file in UTF-8") from None


def read_source(path: Path) -> Source:
    """A pipeline file as a source of statements, which refusals point into."""
    return Source(read_text(path), str(path))


def name_queries(pipeline: Pipeline, source: Source) -> dict[str, Query]:
    """The queries of a file by the names they are shown and kept under; refuses a file without any.

    A query whose answers are a stream has its name, and comes before those that read the stream. One that no
    query reads, not even by another one, does not run.
    """
    if not pipeline.queries:
        raise ConfigurationError(
            f"{source.file} declares streams but has no query: add a SELECT or INSERT INTO"
        )
    names = name_run_queries(source, [query.sink for query in pipeline.queries])
    read = {stream.name for query in pipeline.queries for stream in query.answer_streams}
    answers = {
        stream.name: stream.answers
        for stream in pipeline.answer_streams
        if stream.answers is not None and stream.name in read
    }
    check_answer_streams(answers, names)
    return {**answers, **dict(zip(names, pipeline.queries, strict=True))}


def query_folder(root: str, name: str) -> str:
    """The part of a checkpoint that belongs to a query; like all names, its own has no case."""
    return f"{root}/{name.lower()}"


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
