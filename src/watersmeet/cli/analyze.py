"""`watersmeet analyze`: the statistics of a pipeline's streams, measured from what their sources hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.options import DEFAULT_MASTER, Conf, Master, PipelineFile
from watersmeet.cli.pipeline_files import read_declared, sources_of
from watersmeet.cli.spark_session import parse_settings, spark_session
from watersmeet.cli.terminal.messages import tell, waiting
from watersmeet.cli.terminal.spark_log import temporary_log
from watersmeet.errors import ConfigurationError
from watersmeet.plan.statistics.file import write_statistics
from watersmeet.spark.analyze.analyze import DEFAULT_SAMPLE_ROWS, analyze
from watersmeet.spark.session.packages import add_packages
from watersmeet.spark.sources.open_stream import read_batch


def analyze_command(
    file: PipelineFile,
    sample_rows: Annotated[
        int, typer.Option(min=2, help="Rows to take of each stream.")
    ] = DEFAULT_SAMPLE_ROWS,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write [default: FILE.stats.json, where run and explain look].", metavar="S.json"
        ),
    ] = None,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
) -> None:
    """Measure rates, sizes and values of the streams from a sample, for run and explain to plan by."""
    settings = parse_settings(conf or ())
    read_declared(file)
    settings = add_packages(settings, sources_of(file))
    target = out or file.with_suffix(".stats.json")
    with waiting("measuring"), spark_session(master, settings, temporary_log()) as session:
        spark = session.spark
        statistics = analyze(
            spark,
            session.read(file),
            lambda stream: read_batch(spark, stream, file.parent),
            sample_rows=sample_rows,
        )
    try:
        write_statistics(statistics, target)
    except OSError as error:
        raise ConfigurationError(f"--out {target} cannot be written: {error.strerror}") from None
    tell(f"statistics of {', '.join(statistics.streams)} are in {target}")
