"""`watersmeet submit`, `drop`, `resume`, `list`, `tail`: queries of a shared dataflow. None needs Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.terminal.messages import tell, waiting
from watersmeet.errors import ConfigurationError
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.listing import list_queries
from watersmeet.serve.registry.record import RECORD, RegistryRecord, refuse_unknown, require_record
from watersmeet.serve.registry.requests import Drop, Request, Resume, Submit, await_reply, send
from watersmeet.serve.registry.tail_files import TOUCH_S, TailReader
from watersmeet.spark.jobs.pipeline_file import read_text
from watersmeet.sql import bind_select, parse_statements
from watersmeet.sql.query_names import check_name, name_statements
from watersmeet.sql.syntax.nesting import refuse_long_text
from watersmeet.sql.syntax.refuse import Source
from watersmeet.sql.syntax.split import split_statements

POLL_S = 0.1

Folder = Annotated[Path, typer.Argument(help="The folder of the shared dataflow.", metavar="DIR")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Leave the request for the server, this one or the next.")
]


def submit_command(
    folder: Folder,
    name: Annotated[
        str | None, typer.Argument(help="What to call the query.", metavar="[NAME]", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Argument(help="A file with one statement.", metavar="[FILE.sql]")
    ] = None,
    execute: Annotated[
        str | None, typer.Option("--execute", "-e", help="The statement itself.", metavar="SQL")
    ] = None,
    many: Annotated[
        Path | None,
        typer.Option(
            help="A file of many statements, named by comments (-- name: x) or NAME-1, NAME-2, ...",
            metavar="FILE.sql",
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="In place of queries of the same names, if there are any.")
    ] = False,
    no_wait: NoWait = False,
) -> None:
    """Add queries to a shared dataflow; each sees the tuples that arrive from then on."""
    dataflow = RegistryFolder(folder)
    record = require_record(dataflow)
    if [file, execute, many].count(None) != 2:
        raise ConfigurationError(
            "say what to submit, once: NAME FILE.sql, NAME -e 'SELECT ...' or --many FILE.sql"
        )
    if many is not None:
        queries = _read_many(record, many, name)
    else:
        if name is None:
            raise ConfigurationError("a query needs a name: watersmeet submit DIR NAME ...")
        text = execute if execute is not None else read_text(_given(file))
        queries = {check_name(name): _read_one(record, Source(text, "" if file is None else str(file)))}
    batch = _ask(dataflow, Submit(tuple(queries.items()), replace), no_wait)
    if batch is not None:
        typer.echo(f"{_named(list(queries))} from batch {batch} on")


def drop_command(
    folder: Folder,
    names: Annotated[list[str], typer.Argument(help="The queries to remove.", metavar="NAME...")],
    no_wait: NoWait = False,
) -> None:
    """Remove queries from a shared dataflow, with whatever only they needed."""
    _change(folder, names, Drop, "until batch {}", no_wait)


def resume_command(
    folder: Folder,
    names: Annotated[list[str], typer.Argument(help="The queries to resume.", metavar="NAME...")],
    no_wait: NoWait = False,
) -> None:
    """Let queries that have failed go on; the answers that were due since are not made up for."""
    _change(folder, names, Resume, "from batch {} on", no_wait)


def list_command(
    folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="The list as JSON.")] = False
) -> None:
    """Show the queries of a shared dataflow."""
    listing = list_queries(RegistryFolder(folder))
    typer.echo(listing.to_json() if as_json else listing.pretty())


def tail_command(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The query.", metavar="NAME")],
    count: Annotated[
        int | None, typer.Option(min=1, help="End after this many answers.", show_default=False)
    ] = None,
) -> None:
    """Print the answers of a query as they come, one JSON object per line, until Ctrl-C."""
    dataflow = RegistryFolder(folder)
    record = require_record(dataflow)
    if name not in record.staying:
        raise refuse_unknown(name, record.staying)
    if (failed := record.failed.get(name)) is not None:
        tell(f"query {name} has failed in batch {failed.since}: answers come when it is resumed")
    if not dataflow.is_served():
        tell(f"no server runs on {dataflow.path}: answers come when one does")
    tail = TailReader(dataflow, name)
    tail.open()
    left = count
    try:
        while left is None or left > 0:
            answers = tail.read()[:left]
            for answer in answers:
                print(answer)
            if answers:
                print(end="", flush=True)
            left = None if left is None else left - len(answers)
            if not answers:
                _stay(dataflow, tail)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        tail.close()


def _stay(dataflow: RegistryFolder, tail: TailReader) -> None:
    """Keeps waiting, unless the query was dropped."""
    tail.want()
    age = dataflow.age_s(RECORD)
    if age is not None and age < 2 * TOUCH_S and tail.name not in require_record(dataflow).staying:
        tell(f"query {tail.name} was dropped")
        raise typer.Exit(0)
    time.sleep(POLL_S)


def _change(
    folder: Path, names: list[str], wish: type[Drop] | type[Resume], holds: str, no_wait: bool
) -> None:
    """Requests something of queries by their names, and says from or until which batch it holds."""
    dataflow = RegistryFolder(folder)
    require_record(dataflow)
    unique = list(dict.fromkeys(names))
    batch = _ask(dataflow, wish(tuple(unique)), no_wait)
    if batch is not None:
        typer.echo(f"{_named(unique)} {holds.format(batch)}")


def _ask(dataflow: RegistryFolder, request: Request, no_wait: bool) -> int | None:
    """Sends a request; the batch from which it holds, None if nobody waits for that."""
    request_id = send(dataflow, request)
    if no_wait:
        served = "the server takes it" if dataflow.is_served() else "no server runs; the next one takes it"
        tell(f"the request waits in {dataflow.path}: {served}")
        return None
    try:
        with waiting("waiting for the server"):
            reply = await_reply(dataflow, request_id)
    except KeyboardInterrupt:
        tell(f"the request waits in {dataflow.path}; see watersmeet list {dataflow.path}")
        raise typer.Exit(130) from None
    if reply.refusal is not None:
        raise ConfigurationError(reply.refusal)
    return reply.batch


def _given(file: Path | None) -> Path:
    assert file is not None
    return file


def _read_one(record: RegistryRecord, source: Source) -> str:
    """The one statement of a text, known to fit the declared streams."""
    _bind_all(record, source)
    written = split_statements(source)
    if len(written) != 1:
        raise source.refuse(
            "one statement at a time", written[1].span, "Submit several with --many FILE.sql."
        )
    return written[0].text


def _read_many(record: RegistryRecord, file: Path, name: str | None) -> dict[str, str]:
    source = Source(read_text(file), str(file))
    _bind_all(record, source)
    prefix = f"{name if name is not None else file.stem}-"
    return {n: each.text for n, each in name_statements(source, split_statements(source), prefix).items()}


def _bind_all(record: RegistryRecord, source: Source) -> None:
    """Refuses here what the server would refuse too, with positions in the file as it is."""
    for statement in split_statements(source):
        refuse_long_text(source, statement.span)
        if statement.declares:
            raise source.refuse(
                "streams and sinks are declared when the dataflow is created",
                statement.span,
                "Submit SELECT, or INSERT INTO one of the declared sinks.",
            )
    for select in parse_statements(source.text, source.file).selects:
        bind_select(select, record.catalog, record.pipeline.sinks, shared=True)


def _named(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} queries"
