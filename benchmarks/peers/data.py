"""The same rows for every engine: Parquet by micro-batch, Parquet by stream, and CSV.

    s1/000000.parquet ...          as the workload writes them, for our engine
    whole/s1/all.parquet           a stream in one file, because Flink reads several in any order
    apart/s1/000000.csv ...        a stream in files of a micro-batch each
    together/000000.csv ...        all streams in the order of event time, `stream` saying which

Times in CSV are microseconds. The last row of each stream in CSV is a mark: keys and size -1, at the last
instant of the stream.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from benchmarks.peers.job import Job, Source

from watersmeet.bench.workloads import Workload

FIRST_FILE_S = 1_000_000  # file times give Pathway the order of its steps
STEP_ROWS = 50_000  # of a CSV file with all streams: one step of Pathway's
MARK = -1


def prepare(workload: Workload, folder: Path, *, batch_rows: int, batches: int) -> int:
    """Writes all files of a workload; returns the rows of all streams."""
    rows = workload.write(folder, batch_rows=batch_rows, batches=batches)
    streams = []
    for stream in workload.streams:
        files = sorted((folder / stream.name).glob("*.parquet"))
        table = pa.concat_tables([pq.read_table(file) for file in files])
        (folder / "whole" / stream.name).mkdir(parents=True)
        pq.write_table(table, folder / "whole" / stream.name / "all.parquet")
        streams.append(_with_mark(table))
        write_steps(streams[-1], folder / "apart" / stream.name, table.num_rows // len(files))
    write_steps(_together(workload, streams), folder / "together", STEP_ROWS)
    return rows


def job_of(workload: Workload, folder: Path, out: Path, cores: int) -> Job:
    """The job that a peer is given for a workload."""
    return Job(
        workload.name,
        tuple(
            Source(stream.name, alias, keys)
            for stream, alias, keys in zip(workload.streams, workload.aliases, workload.keys, strict=True)
        ),
        workload.equalities,
        workload.window_s * 1_000_000,
        STEP_ROWS * 1_000_000 // (workload.rows_per_s * len(workload.streams)),
        folder,
        out,
        cores,
    )


def _with_mark(table: pa.Table) -> pa.Table:
    """The stream with its times in microseconds and its mark at the end."""
    times = table["ts"].cast(pa.int64())
    table = table.set_column(table.schema.get_field_index("ts"), "ts", times)
    mark = {name: [MARK] for name in table.column_names} | {"ts": [pc.max(times).as_py()]}
    return pa.concat_tables([table, pa.table(mark, table.schema)])


def _together(workload: Workload, streams: list[pa.Table]) -> pa.Table:
    """The rows of all streams by event time; keys are named by their place, and the missing ones are zero."""
    width = max(len(keys) for keys in workload.keys)
    tables = []
    for number, (keys, table) in enumerate(zip(workload.keys, streams, strict=True)):
        zeros = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
        columns = [table[key] for key in keys] + [zeros] * (width - len(keys))
        tables.append(
            pa.table(
                {
                    "stream": pa.repeat(pa.scalar(number, pa.int64()), table.num_rows),
                    **{f"k{place}": column for place, column in enumerate(columns)},
                    "size": table["size"],
                    "ts": table["ts"],
                    "mark": pc.equal(table["size"], MARK),
                }
            )
        )
    order = [("ts", "ascending"), ("mark", "ascending"), ("stream", "ascending")]
    return pa.concat_tables(tables).sort_by(order).drop_columns("mark")


def write_steps(table: pa.Table, folder: Path, step_rows: int) -> None:
    """Writes CSV files of so many rows, each a second younger than the one before."""
    folder.mkdir(parents=True)
    for number, first in enumerate(range(0, table.num_rows, step_rows)):
        path = folder / f"{number:06}.csv"
        pyarrow.csv.write_csv(table.slice(first, step_rows), path)
        os.utime(path, (FIRST_FILE_S + number, FIRST_FILE_S + number))
