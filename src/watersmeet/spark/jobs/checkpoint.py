"""The folder of a query that can be resumed: Spark's checkpoint, our record of the plan, a control stream.

    DIR/spark            Spark's checkpoint
    DIR/control          files of the control stream: any row ends the input
    DIR/watersmeet.json  which query and plan wrote the state, the paths of its streams and of the folder
                         itself, whether the input has been ended, and, of a query that has been changed,
                         from which batch on it holds, and the query before it
    DIR/progress.json    what the query last reported of itself, for `watersmeet size`
    DIR/run.json         whether a run has begun and not ended, and how small its batches were made

The record is written before the first batch, and may be written anew until there is one. After that a query
is resumed with the number of partitions and the routing it was started with, whatever the session's settings
and statistics are now: the state was cut by them. What else must be the same, `plan.state_format` says.

Where a changed query may go on with the state (`plan.take_over`), the record names both: writing it is the
change. It holds from the first batch that was not completed. If that batch had been planned for the old
query, it is done again for the new one, unless the sink has it already. Until a batch of the new query is
completed the old one counts, so the file may as well be changed back.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.state_format import (
    describe_change,
)
from watersmeet.plan.take_over import KeptState, take_over
from watersmeet.query import UNBOUNDED, Query
from watersmeet.spark.jobs.batch_log import committed_batch, newest_batch
from watersmeet.spark.jobs.resume.change_over import ChangeOver
from watersmeet.spark.jobs.resume.record import Changed, Record
from watersmeet.spark.sources.source_paths import Paths, describe_moved
from watersmeet.spark.storage.folder import Folder
from watersmeet.spark.storage.paths import local_path, spark_path, unpatterned

RECORD = "watersmeet.json"
CONTROL = "control"
PROGRESS = "progress.json"
RUN = "run.json"
BATCHES = "spark/offsets/*"  # there once a batch has begun
NO_PATHS: Paths = MappingProxyType({})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint folder, on a local disk or on anything Spark can write to."""

    spark: SparkSession
    folder: str

    @property
    def spark_folder(self) -> str:
        return f"{self.folder}/spark"

    def plan(
        self, fresh: PhysicalPlan, paths: Paths = NO_PATHS, change: ChangeOver | None = None
    ) -> PhysicalPlan:
        """The plan to run: `fresh` on a new folder, else the one it was started with, if of this query.

        `paths` are where its streams are read from; refuses those that do not take in the old ones. Another
        query is refused, unless a `change` may go through.
        """
        record = self._read()
        if record is None or not (record.ended or self._holds(BATCHES)):
            self._write(replace(Record.of(fresh), paths=paths, folder=self.folder))
            return fresh
        if not record.ended and is_elsewhere(self.folder, record.folder):
            raise ConfigurationError(describe_elsewhere(self.folder, record.folder))
        changed, known = record.changed, [record]
        is_new = changed is not None and committed_batch(self._files) < changed.since
        if changed is not None and changed.replaced is not None and is_new:
            known.append(changed.replaced)  # nothing has come of the change yet
        for each in known:
            resumed = each.resume(fresh)
            if resumed.fingerprint == each.identity.fingerprint:
                if not record.ended:  # or nothing is read any more
                    self._move(record, replace(each, kept=each.kept or KeptState.of(resumed)), paths)
                return resumed
        return self._change(record, known[-1], fresh, paths, change)

    def _change(
        self, record: Record, old: Record, fresh: PhysicalPlan, paths: Paths, change: ChangeOver | None
    ) -> PhysicalPlan:
        """The plan of a changed query on the state of the old one; writing the record is the change."""
        plain = replace(
            fresh, partitions=old.identity.partitions, routing=old.route(fresh.routing), predecessor=None
        )
        if change is None or old.kept is None or record.ended:
            refusal = describe_change(old.identity.fingerprint, plain.fingerprint)
            if old.kept is None and not record.ended:
                refusal += (
                    "\n  It was last run by a version that did not note what is kept: run the old query once "
                    "more, then it can be changed."
                )
            raise ConfigurationError(refusal)
        _refuse_moved(record, paths)
        found = take_over(old.kept, plain, old.changed.predecessor if old.changed is not None else None)
        assert found.plan.predecessor is not None
        done = committed_batch(self._files)
        sunk = record.changed.columns if record.changed is not None else ()
        is_under_way = newest_batch(self._files) > done
        progress, columns = change.decide(
            found, old.identity, sunk, since=done + 1, is_under_way=is_under_way
        )
        before = replace(
            old, changed=replace(old.changed, replaced=None) if old.changed is not None else None
        )
        self._write(
            Record(
                found.plan.identity,
                paths=paths,
                folder=self.folder,
                kept=found.state(progress),
                changed=Changed(done + 1, found.plan.predecessor, columns, before),
            )
        )
        return found.plan

    def query(self, query: Query) -> Query:
        """The query under the windows it was started with: one that is derived now may have been none."""
        record = self._read()
        if record is None or not self._holds(BATCHES):
            return query
        unbounded = {
            item["alias"] for item in record.identity.state["inputs"] if item["window"] == UNBOUNDED.to_json()
        }
        return replace(
            query,
            inputs=tuple(each.as_written() if each.alias in unbounded else each for each in query.inputs),
        )

    def _move(self, record: Record, resumed: Record, paths: Paths) -> None:
        _refuse_moved(record, paths)
        moved_in = replace(resumed, paths=paths, folder=self.folder)
        if moved_in != record:
            self._write(moved_in)

    def record(self) -> Record | None:
        """What is known of the query that was started here; None on a new folder."""
        return self._read()

    def has_ended(self) -> bool:
        """Whether an earlier run has ended the input for good."""
        record = self._read()
        return record is not None and record.ended

    def refuse_ended(self) -> ConfigurationError:
        """The refusal of more input than there can be."""
        return ConfigurationError(
            f"the input of {self.folder} was ended by --flush: what comes now would be after the end of "
            "time. Start anew with another checkpoint; or, to end other queries of the file as well, say "
            "--flush again"
        )

    def routing(self) -> str | None:
        """How the query that was started here is routed; None on a new folder."""
        record = self._read()
        return None if record is None or not self._holds(BATCHES) else record.identity.routing

    def control(self) -> DataFrame:
        """The control stream."""
        try:
            self._files.make(CONTROL)
        except OSError as error:
            raise self._unwritable(error) from None
        path = unpatterned(spark_path(f"{self.folder}/{CONTROL}"))
        return self.spark.readStream.schema("value string").text(path)

    def is_ending(self) -> bool:
        """Whether the end of the input is on its way to the query, or has reached it."""
        return self._holds(f"{CONTROL}/end-*")

    def end_input(self) -> None:
        """Puts a row into the control stream that ends all input; more of them change nothing."""
        try:
            self._files.write(f"{CONTROL}/end-{secrets.token_hex(4)}.txt", "end\n")
        except OSError as error:
            raise self._unwritable(error) from None

    def mark_ended(self) -> None:
        """Remembers that no more input may be taken."""
        record = self._read()
        if record is not None and not record.ended:
            self._write(replace(record, ended=True))

    def keep_progress(self, text: str) -> None:
        """Leaves what the query reports of itself where it can be looked up."""
        self._files.write(PROGRESS, text)

    def begin_run(self, smaller: int) -> None:
        """Remembers that a run has begun, with batches so many times smaller than declared."""
        self._write_run({"ended": False, "smaller": smaller})

    def end_run(self) -> None:
        """Remembers that the run has ended, or was stopped: it was not killed."""
        self._write_run({"ended": True, "smaller": 1})

    def unended_run(self) -> int | None:
        """How many times smaller the batches of the last run were, if that was killed; None if not."""
        try:
            run = json.loads(self._files.read(RUN) or "{}")
            return None if run.get("ended", True) else max(1, int(run["smaller"]))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None  # nothing depends on it

    def _write_run(self, fields: Mapping[str, Any]) -> None:
        try:
            self._files.write(RUN, json.dumps(fields))
        except OSError as error:
            raise self._unwritable(error) from None

    @property
    def _files(self) -> Folder:
        return Folder(self.spark, self.folder)

    def _holds(self, pattern: str) -> bool:
        try:
            return self._files.holds(pattern)
        except OSError as error:
            raise self._unreadable(error) from None

    def _read(self) -> Record | None:
        try:
            text = self._files.read(RECORD)
            if text is None:
                if self._files.holds(BATCHES):
                    raise FileNotFoundError("it is missing")
                return None
            try:
                return Record.from_json(json.loads(text))
            except ConfigurationError:
                if self._files.holds(BATCHES):
                    raise
                return None  # of another state format, but there is no state yet
        except OSError as error:
            raise self._unreadable(error) from None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise self._unreadable("it is not what was written there") from None

    def _write(self, record: Record) -> None:
        try:
            self._files.write(RECORD, json.dumps(record.to_json()))
        except OSError as error:
            raise self._unwritable(error) from None

    def _unreadable(self, reason: OSError | str) -> DataError:
        return DataError(
            f"the checkpoint {self.folder} is damaged: {RECORD} cannot be read ({_said(reason)}). "
            "Put it back from a copy, or start anew with another checkpoint"
        )

    def _unwritable(self, reason: OSError) -> ConfigurationError:
        return ConfigurationError(f"the checkpoint {self.folder} cannot be written: {_said(reason)}")


def is_elsewhere(folder: str, made_in: str) -> bool:
    """Whether a checkpoint is not where it was made; False where that is unknown, or not on this disk."""
    here, there = local_path(folder), local_path(made_in)
    if not made_in or here is None or there is None:
        return False
    try:
        return not here.samefile(there)
    except FileNotFoundError:
        return True


def describe_elsewhere(folder: str, made_in: str) -> str:
    """Why a checkpoint that was moved or copied cannot be resumed."""
    return (
        f"the checkpoint {folder} was made in {made_in}, and Spark keeps absolute paths in it. If it is a "
        "copy, a sink could not tell its batches from those of the other one. Move it back there, or start "
        "anew with another checkpoint"
    )


def _said(reason: OSError | str) -> str:
    """What an error says, without the number of it."""
    return str(reason.strerror or reason) if isinstance(reason, OSError) else reason


def _refuse_moved(record: Record, paths: Paths) -> None:
    if moved := describe_moved(record.paths, paths):
        raise ConfigurationError(moved)
