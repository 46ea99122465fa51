"""A folder becomes a ring: from a pipeline file the first time, from its own record ever after."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.query import MAX_INPUTS, Column
from watersmeet.serve.registry.changes import Judge
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.names import name_statements
from watersmeet.serve.registry.record import RegistryRecord, read_record, write_record
from watersmeet.serve.registry.requests import Submit
from watersmeet.spark.jobs.pipeline_file import absolute_checkpoint, read_text
from watersmeet.sql import Infer, bind_select, parse_statements
from watersmeet.sql.syntax.refuse import Source
from watersmeet.sql.syntax.split import split_statements

LEVELS = 3
MAX_LEVELS = MAX_INPUTS - 1
FIRST = "q"  # and a number: queries of the pipeline file that have no name


@dataclass(frozen=True)
class Asked:
    """What `watersmeet serve` was asked for, as far as the ring remembers it; None: as it is."""

    streams: Path | None = None
    levels: int | None = None
    checkpoint: str | None = None


def find_dataflow(folder: RegistryFolder, asked: Asked) -> RegistryRecord | None:
    """The ring of a folder, None if it is to be made; refuses what contradicts it, or is missing."""
    record = read_record(folder)
    if record is None:
        if asked.streams is None:
            raise ConfigurationError(
                f"there is no ring in {folder.path} yet: say which streams it reads, --streams PIPELINE.sql"
            )
        _check_levels(asked.levels)
        draft_dataflow(folder, asked, partitions=1)
        return None
    if asked.levels not in (None, record.levels):
        raise ConfigurationError(
            f"the ring in {folder.path} has {record.levels} levels, and its state is made for them: "
            "leave out --levels, or serve another folder"
        )
    if asked.checkpoint is not None and _place(folder, asked.checkpoint) != record.checkpoint:
        raise ConfigurationError(
            f"the ring in {folder.path} has its checkpoint in {record.checkpoint}: leave out --checkpoint"
        )
    if asked.streams is not None and _declarations(asked.streams) != record.declarations:
        raise ConfigurationError(
            f"{asked.streams} declares other streams or sinks than the ring in {folder.path} was made with: "
            "leave out --streams, or serve another folder"
        )
    return record


def draft_dataflow(
    folder: RegistryFolder, asked: Asked, partitions: int, infer: Infer | None = None
) -> tuple[RegistryRecord, Submit | None]:
    """A ring without queries, and those of its file as they are to be submitted.

    Without `infer`, streams that declare no columns have none, and queries are only parsed.
    """
    assert asked.streams is not None
    source = Source(read_text(asked.streams), str(asked.streams))
    parsed = parse_statements(source.text, source.file)
    if not parsed.declarations:
        raise ConfigurationError(f"{asked.streams} declares no stream: write CREATE STREAM")
    written = [each for each in split_statements(source) if not each.declares]
    queries = tuple((name, each.text) for name, each in name_statements(source, written, FIRST).items())
    columns: dict[str, tuple[Column, ...]] = {}
    for declaration in parsed.declarations:
        if not declaration.stream.columns and infer is not None:
            columns[declaration.stream.name.lower()] = tuple(infer(declaration.stream))
    record = RegistryRecord(
        secrets.token_hex(4),
        str(asked.streams.absolute()),
        _declarations(asked.streams),
        asked.levels or LEVELS,
        partitions,
        _place(folder, asked.checkpoint),
        columns,
    )
    if infer is not None or all(declaration.stream.columns for declaration in parsed.declarations):
        # Bound here for the sake of what is refused: places in the file, not in a statement of it.
        catalog = {stream.name: stream for stream in record.pipeline.streams}
        for select in parsed.selects:
            bind_select(select, catalog, parsed.sinks)
    return record, Submit(queries) if queries else None


def make_dataflow(
    folder: RegistryFolder,
    asked: Asked,
    partitions: int,
    infer: Infer,
    judge: Judge,
    newest: Callable[[str], int],
) -> RegistryRecord:
    """Makes a ring of a pipeline file, its queries among the first, and writes it down."""
    record, submit = draft_dataflow(folder, asked, partitions, infer)
    if newest(record.checkpoint) >= 0:
        raise DataError(
            f"the checkpoint {record.checkpoint} is of another query or ring: start with an empty one, or "
            "put its ring.json back from a copy"
        )
    standing = judge.stand(record)
    if submit is not None:
        judgement = judge.judge(standing, {FIRST: submit})
        for refusal in judgement.refused.values():
            raise ConfigurationError(refusal)
        standing = judgement.standing.settled(0)
    record = replace(standing.record, dataflow=standing.dataflow)
    write_record(folder, record)
    return record


def _check_levels(levels: int | None) -> None:
    if levels is not None and not 1 <= levels <= MAX_LEVELS:
        raise ConfigurationError(f"--levels {levels}: a ring has 1 to {MAX_LEVELS} levels of joins")


def _place(folder: RegistryFolder, checkpoint: str | None) -> str:
    """Where the checkpoint is, the same wherever the process goes."""
    return absolute_checkpoint(folder.path if checkpoint is None else checkpoint)


def _declarations(file: Path) -> str:
    source = Source(read_text(file), str(file))
    return "".join(f"{each.text};\n" for each in split_statements(source) if each.declares)
