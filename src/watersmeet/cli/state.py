"""`watersmeet state`: what a query keeps, beside its run or after it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from rich.console import Console

from watersmeet.cli.options import DEFAULT_MASTER, Conf, Master
from watersmeet.cli.spark_session import parse_settings, spark_session
from watersmeet.cli.terminal.messages import tell, waiting
from watersmeet.cli.terminal.spark_log import temporary_log
from watersmeet.cli.terminal.state_tables import render_state
from watersmeet.errors import ConfigurationError
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import read_record
from watersmeet.session import Session
from watersmeet.spark.inspect.open_state import open_states
from watersmeet.spark.inspect.read_state import CheckpointState
from watersmeet.spark.inspect.state_report import report_state
from watersmeet.spark.jobs.batch_log import committed_batch
from watersmeet.spark.session.failures import first_line
from watersmeet.spark.storage.folder import Folder
from watersmeet.spark.storage.paths import has_scheme, spark_path

WIDE = 200  # characters of a line that goes to a file or a program


def state_command(
    checkpoint: Annotated[
        str,
        typer.Argument(help="A pipeline file, a checkpoint, or a served folder.", metavar="PATH"),
    ],
    query: Annotated[str | None, typer.Option(help="Look at this query alone.", metavar="NAME")] = None,
    buckets: Annotated[bool, typer.Option("--buckets", help="A row for each bucket.")] = False,
    top: Annotated[int, typer.Option(min=0, help="How many frequent values to show of each key.")] = 5,
    tuples: Annotated[
        str | None,
        typer.Option(help="Print live tuples: a SELECT over the names of inputs.", metavar="SQL"),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="With --tuples: the most rows to print.")] = 100,
    export: Annotated[
        str | None,
        typer.Option(help="Write the live tuples of each input into a folder of Parquet.", metavar="DIR"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON; of tuples a line each.")] = False,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
) -> None:
    """Show what a query keeps: live tuples by input and bucket, their bytes, age and frequent values.

    It reads what the last completed batch left and changes nothing, so the query may run meanwhile.
    """
    settings = parse_settings(conf or ())
    with waiting("reading the state"), spark_session(master, settings, temporary_log()) as session:
        states = _chosen(_open(session, checkpoint), query)
        if tuples is None and export is None:
            _show(states, top, by_bucket=buckets, as_json=as_json)
            return
        name, state = _only(states)
        inputs = state.inputs()
        _refuse_none(name, inputs)
        if export is not None:
            _export(inputs, export)
        if tuples is not None:
            _print(_select(inputs, tuples), limit, as_json=as_json)


def _open(session: Session, path: str) -> Mapping[str, CheckpointState]:
    """The states under a path, which may be the folder of a shared dataflow."""
    if not has_scheme(path) and Path(path).is_dir():
        record = read_record(RegistryFolder(Path(path)))
        if record is not None:
            folder = f"{record.checkpoint}/spark"
            states = {Path(path).name: CheckpointState(session.spark, folder, record.dataflow)}
            for query in record.beside.values():
                own = record.own_checkpoint(query)
                if committed_batch(Folder(session.spark, own)) >= 0:
                    states |= {query.name: next(iter(open_states(session.spark, own).values()))}
            return states
    return open_states(session.spark, path)


def _chosen(states: Mapping[str, CheckpointState], query: str | None) -> Mapping[str, CheckpointState]:
    if query is None:
        return states
    if query not in states:
        raise ConfigurationError(f"there is no query {query}: there are {', '.join(states)}")
    return {query: states[query]}


def _only(states: Mapping[str, CheckpointState]) -> tuple[str, CheckpointState]:
    """The one state of which tuples can be shown."""
    if len(states) > 1:
        raise ConfigurationError(f"say of which query: --query with one of {', '.join(states)}")
    return next(iter(states.items()))


def _refuse_none(name: str, inputs: Mapping[str, DataFrame]) -> None:
    if not inputs:
        raise ConfigurationError(f"query {name} keeps no tuples: nothing has come, or all have expired")


def _show(states: Mapping[str, CheckpointState], top: int, *, by_bucket: bool, as_json: bool) -> None:
    reports = {name: report_state(state, top) for name, state in states.items()}
    if as_json:
        document = [{"query": name, **report.to_json()} for name, report in reports.items()]
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    for number, (name, report) in enumerate(reports.items()):
        if number:
            console.print()
        console.print(render_state(name, report, by_bucket=by_bucket))


def _select(inputs: Mapping[str, DataFrame], text: str) -> DataFrame:
    """What a SELECT over the inputs gives."""
    spark = next(iter(inputs.values())).sparkSession
    for alias, frame in inputs.items():
        frame.createOrReplaceTempView(f"`{alias}`")
    try:
        return spark.sql(text)
    except PySparkException as error:
        columns = "; ".join(f"{alias} has {', '.join(frame.columns)}" for alias, frame in inputs.items())
        raise ConfigurationError(f"--tuples: {first_line(str(error))}\n{columns}") from None


def _print(frame: DataFrame, limit: int, *, as_json: bool) -> None:
    rows = frame.limit(limit + 1).selectExpr("to_json(struct(*))" if as_json else "*").collect()
    if as_json:
        for [line] in rows[:limit]:
            typer.echo(line)
    else:
        typer.echo(_aligned(frame.columns, [[_text(value) for value in row] for row in rows[:limit]]))
    if len(rows) > limit:
        tell(f"there are more than {limit} rows: say --limit for more of them, or --export for all tuples")


def _text(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _aligned(columns: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    lines = [[*columns], *rows]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _export(inputs: Mapping[str, DataFrame], folder: str) -> None:
    for alias, frame in inputs.items():
        target = spark_path(f"{folder}/{alias}")
        try:
            frame.write.parquet(target)
        except PySparkException as error:
            raise ConfigurationError(
                f"--export {target} cannot be written: {first_line(str(error))}"
            ) from None
        tell(f"live tuples of {alias} are in {target}")
