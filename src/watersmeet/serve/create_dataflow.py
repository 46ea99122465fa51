"""A folder becomes a shared dataflow: from a pipeline file at first, from its own record ever after."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.query import MAX_INPUTS, Column
from watersmeet.serve.registry.changes import ChangePlanner
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import RECORD, RegistryRecord, read_record, write_record
from watersmeet.serve.registry.requests import Submit
from watersmeet.spark.jobs.checkpoint import describe_elsewhere, is_elsewhere
from watersmeet.spark.jobs.pipeline_file import absolute_checkpoint, read_text
from watersmeet.spark.sources.clean_source import refuse_shared_cleaning
from watersmeet.sql import Infer, bind_select, parse_statements
from watersmeet.sql.query_names import name_statements
from watersmeet.sql.syntax.refuse import Source
from watersmeet.sql.syntax.split import split_statements

LEVELS = 3
MAX_LEVELS = MAX_INPUTS - 1


@dataclass(frozen=True)
class CreationOptions:
    """What is fixed when a dataflow is created; None: the default, or what it was created with."""

    streams: Path | None = None
    levels: int | None = None
    checkpoint: str | None = None


def find_dataflow(folder: RegistryFolder, options: CreationOptions) -> RegistryRecord | None:
    """The dataflow of a folder, None if it is still to be created; refuses options that contradict it."""
    record = read_record(folder)
    if record is None:
        if options.streams is None:
            raise ConfigurationError(
                f"there is no shared dataflow in {folder.path} yet: name the streams it reads, "
                "--streams PIPELINE.sql"
            )
        _check_levels(options.levels)
        draft_dataflow(folder, options, partitions=1)
        return None
    if (folder.path / "spark").exists() and is_elsewhere(str(folder.path), record.checkpoint):
        raise ConfigurationError(describe_elsewhere(str(folder.path), record.checkpoint))
    if options.levels not in (None, record.levels):
        raise ConfigurationError(
            f"the dataflow in {folder.path} has {record.levels} levels, and its state depends on them: "
            "leave out --levels, or serve another folder"
        )
    if options.checkpoint is not None and _checkpoint_path(folder, options.checkpoint) != record.checkpoint:
        raise ConfigurationError(
            f"the dataflow in {folder.path} keeps its checkpoint in {record.checkpoint}: leave out "
            "--checkpoint"
        )
    if options.streams is not None and _declarations(options.streams) != record.declarations:
        raise ConfigurationError(
            f"{options.streams} declares other streams or sinks than those the dataflow in {folder.path} was "
            "created with: leave out --streams, or serve another folder"
        )
    return record


def draft_dataflow(
    folder: RegistryFolder, options: CreationOptions, partitions: int, infer: Infer | None = None
) -> tuple[RegistryRecord, Submit | None]:
    """A dataflow without queries, and the request that submits those of its file.

    Without `infer`, streams that declare no columns have none, and queries are parsed but not bound.
    """
    assert options.streams is not None
    source = Source(read_text(options.streams), str(options.streams))
    parsed = parse_statements(source.text, source.file)
    if not parsed.declarations:
        raise ConfigurationError(f"{options.streams} declares no stream: write CREATE STREAM")
    if parsed.answers:
        (first, *_) = parsed.answers
        raise source.refuse(
            "a shared dataflow serves streams, not the answers of queries",
            first.sink or first.span,
            "Run the file by itself: watersmeet run.",
        )
    streams = [declaration.stream for declaration in parsed.declarations]
    refuse_shared_cleaning({source.file: streams}, options.streams.parent)
    written = [each for each in split_statements(source) if not each.declares]
    queries = tuple((name, each.text) for name, each in name_statements(source, written).items())
    columns: dict[str, tuple[Column, ...]] = {}
    for declaration in parsed.declarations:
        if not declaration.stream.columns and infer is not None:
            columns[declaration.stream.name.lower()] = tuple(infer(declaration.stream))
    record = RegistryRecord(
        id=secrets.token_hex(4),
        file=str(options.streams.absolute()),
        declarations=_declarations(options.streams),
        levels=options.levels or LEVELS,
        partitions=partitions,
        checkpoint=_checkpoint_path(folder, options.checkpoint),
        columns=columns,
    )
    if infer is not None or all(declaration.stream.columns for declaration in parsed.declarations):
        # Bound here so that refusals name positions in the file, not in one statement of it.
        for select in parsed.selects:
            bind_select(select, record.catalog, parsed.sinks, shared=True)
    return record, Submit(queries) if queries else None


def create_dataflow(
    folder: RegistryFolder,
    options: CreationOptions,
    *,
    partitions: int,
    infer: Infer,
    planner: ChangePlanner,
    newest: Callable[[str], int],
) -> RegistryRecord:
    """Creates a dataflow from a pipeline file, with the queries of that file, and writes its record."""
    record, submit = draft_dataflow(folder, options, partitions, infer)
    if newest(record.checkpoint) >= 0:
        raise DataError(
            f"the checkpoint {record.checkpoint} belongs to another query or dataflow: start with an empty "
            f"one, or restore its {RECORD} from a backup"
        )
    current = planner.bind(record)
    if submit is not None:
        change = planner.plan(current, {"": submit})
        for refusal in change.refused.values():
            raise ConfigurationError(refusal)
        current = change.result.settled(0)
    record = replace(current.record, dataflow=current.dataflow)
    write_record(folder, record)
    return record


def _check_levels(levels: int | None) -> None:
    if levels is not None and not 1 <= levels <= MAX_LEVELS:
        raise ConfigurationError(f"--levels {levels}: a dataflow has 1 to {MAX_LEVELS} levels of joins")


def _checkpoint_path(folder: RegistryFolder, checkpoint: str | None) -> str:
    """The absolute path of the checkpoint."""
    return absolute_checkpoint(folder.path if checkpoint is None else checkpoint)


def _declarations(file: Path) -> str:
    source = Source(read_text(file), str(file))
    return "".join(f"{each.text};\n" for each in split_statements(source) if each.declares)
