"""Dead letters across sites: each site keeps those of the streams that arrive there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.query import Pipeline, Stream
from watersmeet.spark.jobs.dead_letters import DeadLetters, plan_dead_letters
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.session.kafka_options import DEAD_LETTERS


def letters_of_site(
    spark: SparkSession,
    pipeline: Pipeline,
    here: Collection[str],
    folder: str,
    base: Path,
    options: RunOptions,
) -> list[DeadLetters]:
    """A query for every sink that takes dead letters of streams `here`; `folder` is the site's own.

    A sink has one writer, so streams of several sites need one each.
    """
    own = tuple(stream for stream in pipeline.streams if stream.name in here)
    others = {name: stream for stream in pipeline.streams if stream not in own and (name := _sink(stream))}
    for stream in own:
        other = others.get(_sink(stream))
        if other is not None:
            raise ConfigurationError(
                f"streams {stream.name} and {other.name} are at different sites, and both have "
                f"{DEAD_LETTERS} = '{_sink(stream)}': a sink takes the dead letters of one site. Declare one "
                "for each"
            )
    return plan_dead_letters(spark, replace(pipeline, streams=own), folder, base, options)


def _sink(stream: Stream) -> str:
    """The sink of a stream's dead letters; empty if it has none."""
    return ((stream.source.option(DEAD_LETTERS) if stream.source else None) or "").lower()
