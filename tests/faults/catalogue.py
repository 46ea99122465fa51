"""Faults put into the engine on purpose, at least one for each step of a tuple's way.

Each is a small edit that a tired programmer might make. The tests in process have to find every one of them:
`make test-faults` puts them in, one by one, in a copy of the source, and runs those tests.
"""

from __future__ import annotations

from tests.faults.fault import Fault
from tests.faults.outer_faults import OUTER_FAULTS
from tests.faults.site_faults import SITE_FAULTS
from tests.faults.tail_faults import TAIL_FAULTS
from tests.faults.view_faults import VIEW_FAULTS
from tests.faults.window_faults import WINDOW_FAULTS

MACHINE = ("tests/machine",)
CLOCKS = ("tests/testing/test_clocks.py",)

FAULTS = (
    *OUTER_FAULTS,
    *TAIL_FAULTS,
    *VIEW_FAULTS,
    *WINDOW_FAULTS,
    # read
    Fault(
        "the last of several files is not read",
        "spark/sources/parquet/reader.py",
        "for number, file in enumerate(files):",
        "for number, file in enumerate(files[: max(1, len(files) - 1)]):",
    ),
    Fault(
        "late columns of other rows are fetched",
        "spark/sources/parquet/late_columns.py",
        'back = pa.array(np.argsort(order, kind="stable"))',
        "back = pa.array(order)",
    ),
    Fault(
        "the filters of a ROWS input are ignored",
        "kernel/bucket.py",
        "return batch.filter(pc.fill_null(batch.column(KEEP), False)) if KEEP in batch.schema.names",
        "return batch if KEEP in batch.schema.names",
    ),
    Fault(
        "a piece of a batch does not know where its late columns are",
        "spark/stages/read_batch.py",
        "yield BatchInput(self._tuples(), late_payload=self._late, is_last=False, received=received)",
        "yield BatchInput(self._tuples(), is_last=False, received=received)",
    ),
    Fault(
        "a source is taken for its neighbour",
        "spark/stages/read_batch.py",
        "self._parts.setdefault(self._layout.inputs[message.input].alias, []).append(tuples)",
        "self._parts.setdefault(self._layout.inputs[message.input - 1].alias, []).append(tuples)",
    ),
    Fault(
        "the stream's progress is one microsecond ahead",
        "spark/exchange/pack.py",
        "max_ts=collected.max_ts,",
        "max_ts=collected.max_ts + 1,",
    ),
    Fault(
        "tuples of the far future are counted, and kept all the same",
        "spark/exchange/collect.py",
        "            batch = kept\n",
        "            kept = batch\n",
        CLOCKS,
    ),
    Fault(
        "the time a query is stopped counts as silence",
        "kernel/progress/watermark.py",
        "stopped = max(0, min(began_us, now) - before)",
        "stopped = 0",
        CLOCKS,
    ),
    Fault(
        "the watermark of a set goes on in batches that have nothing of it",
        "kernel/progress/stream_bounds.py",
        "if own.sources:",
        "if own.now_us is not None:",
        CLOCKS,
    ),
    # route
    Fault(
        "a replicated tuple misses its last bucket",
        "spark/exchange/pack.py",
        "targets = part.buckets if only is None else buckets",
        "targets = (part.buckets[:-1] or part.buckets) if only is None else buckets",
    ),
    Fault(
        "a hot value's copies are not sent",
        "kernel/routing/hot_routing.py",
        "targets.append(first[chosen] + _shift(grid, own, steps, home, chosen))",
        "targets.append(first[chosen])",
    ),
    # step
    Fault(
        "a RANGE window ends a microsecond early",
        "query/window.py",
        "return _at_most(ts, NEVER - (self.size + 1)) + (self.size + 1)",
        "return ts + self.size",
    ),
    Fault(
        "a chunk is forgotten a microsecond early",
        "kernel/state/store.py",
        "kept = [c for c in self.chunks if c.expires_at > progress or c.max_ts >= pending_from]",
        "kept = [c for c in self.chunks if c.expires_at - 1 > progress or c.max_ts >= pending_from]",
    ),
    Fault(
        "late is at the watermark, not before it",
        "kernel/join/multiway.py",
        "accepted = np.asarray(batch.column(TS)) >= self.watermark",
        "accepted = np.asarray(batch.column(TS)) > self.watermark",
    ),
    Fault(
        "the watermark follows the fastest stream",
        "kernel/progress/watermark.py",
        "self.now = max(self.now, min(bounds))",
        "self.now = max(self.now, max(bounds))",
    ),
    Fault(
        "tuples of one batch do not meet each other",
        "kernel/join/multiway.py",
        "                    if len(self.stores) > 1:\n"
        "                        self.stores[head].index(arrivals)",
        "            for head, arrivals in cell.items():\n                self.stores[head].index(arrivals)",
    ),
    Fault(
        "keys are not compared by value",
        "kernel/join/combinations.py",
        "keep &= same_values(first[cls], taken[name])",
        "pass",
        ("tests/kernel/join/test_join.py",),  # in a few tuples no two hashes collide unless they are made to
    ),
    Fault(
        "the overlap of lifetimes is taken from one side",
        "kernel/join/multiway.py",
        "np.minimum(partials.min_end[chosen], found.ends),",
        "partials.min_end[chosen],",
    ),
    Fault(
        "row numbers start anew after a release",
        "kernel/progress/row_numbers.py",
        "self.next_position += len(known.ts)",
        "self.next_position = len(known.ts)",
    ),
    Fault(
        "what is beyond the bound of a block is lost",
        "kernel/state/slice.py",
        "        while walking:",
        "        if walking:",
    ),
    # answer
    Fault(
        "answers that wait are let out a microsecond late",
        "kernel/output/held_answers.py",
        "due = (t >= since) & (t < self.watermark)",
        "due = (t > since) & (t < self.watermark)",
    ),
    Fault(
        "a value is present for as long as its last answer alone",
        "kernel/output/distinct.py",
        "running[row] = max(running[row - 1], ends[row - 1])",
        "running[row] = ends[row - 1]",
    ),
    # persist
    Fault(
        "the last new chunk is not written",
        "spark/stages/state_log.py",
        "for chunk in changes.appended:",
        "for chunk in changes.appended[:-1] or changes.appended:",
    ),
    Fault(
        "a stale cache is believed",
        "spark/stages/bucket_stage.py",
        "if cached is not None and cached.token == head.token:",
        "if cached is not None:",
    ),
    Fault(
        "a worker that catches up takes the first rows for known",
        "kernel/join/multiway.py",
        "if chunk.stop > known:",
        "if chunk.start > known:",
    ),
    Fault(
        "the restored watermark is forgotten",
        "kernel/progress/watermark.py",
        'return cls(lateness, snapshot["now"], ',
        "return cls(lateness, BEGINNING, ",
    ),
    # many queries
    Fault(
        "results go on to a neighbouring bucket",
        "kernel/multiquery/rows.py",
        "return [(bucket, part) for bucket, part in enumerate(parts) if part.num_rows]",
        "return [((bucket + 1) % buckets, part) for bucket, part in enumerate(parts) if part.num_rows]",
    ),
    Fault(
        "tuples that several levels need are handed to the last of them",
        "spark/multiquery/stage.py",
        "self.handed_on.append(replace(message, level=min(further)))",
        "self.handed_on.append(replace(message, level=max(further)))",
    ),
    # crashes, repeated tasks, tasks believed dead
    Fault(
        "uploads of two tries of a task have the same name",
        "spark/session/environment.py",
        'STATE_COMMITS: "2",',
        'STATE_COMMITS: "1",',
        ("tests/machine/test_state.py",),  # the schedules find it in one of some hundreds
    ),
    Fault(
        "a bucket stays in the cache while a task changes it",
        "spark/worker/worker_cache.py",
        "entry = self._entries.pop(key, None)",
        "entry = self._entries.get(key)",
        MACHINE,
    ),
    Fault(
        "any cached bucket is taken for an ancestor",
        "spark/stages/bucket_stage.py",
        "if cached is None or cached.token not in head.tokens:",
        "if cached is None:",
        MACHINE,
    ),
    Fault(
        "a restart forgets the plan that cut the state",
        "spark/jobs/checkpoint.py",
        "if record is None or not (record.ended or self._holds(BATCHES)):",
        "if record is None or not record.ended:",
        MACHINE,
    ),
    # sinks
    Fault(
        "files are published before their record is written",
        "spark/sinks/file_commit.py",
        'path = f"{writer.log}/batch-{attempt.batch}-{attempt.number}"',
        'path = f"{writer.log}/batch-{attempt.batch}-{attempt.number}"\n    _publish(tree, record)',
        MACHINE,
    ),
    Fault(
        "a publication that was cut short is not completed",
        "spark/sinks/file_commit.py",
        "if _name(record.staging) in names:",
        "if not names:",
        MACHINE,
    ),
    Fault(
        "a batch that is published is published again",
        "spark/sinks/file_commit.py",
        "due=queries.difference(*(record.queries for record in done)),",
        "due=queries,",
        MACHINE,
    ),
    Fault(
        "later files of a batch replace its first ones",
        "spark/sinks/file_commit.py",
        "first_file=sum(len(record.files) for record in done),",
        "first_file=0,",
        MACHINE,
    ),
    Fault(
        "an answer's id depends on the other queries",
        "spark/sinks/answer_ids.py",
        "bucket = partition if origin.buckets is None else partition % origin.buckets",
        "bucket = partition",
        MACHINE,
    ),
    # runs that are stopped, changed, or not alone
    Fault(
        "a query that is stopped is taken for one at the end of its input",
        "spark/jobs/job.py",
        "if self._is_stopped or self.failure is not None:",
        "if self.failure is not None:",
        ("tests/spark/jobs/test_stopped_job.py",),
    ),
    Fault(
        "a stream is read from anywhere after a restart",
        "spark/jobs/checkpoint.py",
        "if moved := describe_moved(record.paths, paths):",
        "if moved := describe_moved({}, paths):",
        ("tests/spark/sources/test_source_paths.py",),
    ),
    Fault(
        "the holder of a lease is silent since the onlooker began to look",
        "spark/jobs/lease.py",
        "return Seen(signs, looked, holder, is_alive=seen is not None)",
        "return Seen(signs, began, holder, is_alive=seen is not None)",
        ("tests/spark/jobs/test_lease.py",),
    ),
    # servers
    Fault(
        "a change of queries begins with a batch that has begun without it",
        "serve/server.py",
        "batch = (self.engine.committed() if fresh_start else self.engine.newest()) + 1",
        "batch = self.engine.committed() + 1",
        ("tests/serve/test_server.py",),  # sinks would bear it
    ),
    Fault(
        "a dropped query is gone before its last batch is committed",
        "serve/registry/record.py",
        "or self.until <= committed + 1)",
        "or self.until <= committed + 2)",
        MACHINE,
    ),
    Fault(
        "a change of queries cuts the running batch off",
        "serve/server.py",
        "if committed < self.engine.newest():\n            return False\n",
        "if committed < self.engine.newest():\n            return True\n",
        ("tests/serve/test_server.py",),  # batches that are cut off are done again
    ),
    Fault(
        "a query that was resumed answers in a batch that is done again as it was",
        "serve/server.py",
        "batch = max(batch, first_batch(self._current.record, change.result.record))",
        "batch -= 1",
        MACHINE,
    ),
    Fault(
        "a query beside a dataflow reads the last files that the dataflow has read",
        "spark/jobs/beside/begin_at.py",
        'for entry in entries if entry["batchId"] <= last]',
        'for entry in entries if entry["batchId"] < last]',
        ("tests/spark/jobs/beside",),
    ),
    *SITE_FAULTS,
)
