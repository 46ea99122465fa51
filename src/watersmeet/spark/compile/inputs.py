"""The inputs of a query as rows of the shuffle: the first half of a compiled query.

sources -> project -> pack -> exchange        what Spark reads
names of files -> exchange                    what the join reads itself, where its buckets are few
names of files                                the same for a single bucket: one partition, no exchange
names of files -> pack -> exchange            what the packing tasks read otherwise
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame

from watersmeet.kernel import KEEP, TS, Grid, InputLayout, StateLimit
from watersmeet.query import Expr, Input, Query
from watersmeet.query.expression import quote_name
from watersmeet.spark.exchange.gather import CHUNK_BYTES, NOW, NOW_SQL
from watersmeet.spark.exchange.hot_keys import HotKeys
from watersmeet.spark.exchange.pack import Pack
from watersmeet.spark.exchange.wire import END_OF_INPUT, NAMED, UNKNOWN, WIRE_SCHEMA
from watersmeet.spark.sources.event_time import event_microseconds
from watersmeet.spark.sources.parquet.files import PATH, FileInput, PackFiles, number_files
from watersmeet.spark.sources.parquet.late_columns import wide_columns
from watersmeet.spark.sources.parquet.rows import FileColumn
from watersmeet.spark.worker.frugal import frugally

READING_BUCKETS = 4  # every bucket reads every file, so this pays while there are few


@dataclass(frozen=True)
class Inputs:
    """The inputs of one query on their way to its first stage."""

    query: Query
    layouts: tuple[InputLayout, ...]
    sources: Mapping[str, DataFrame]
    files: Mapping[str, DataFrame]  # names of the files of some sources
    control: DataFrame | None
    grid: Grid
    labels: tuple[int, ...]
    partitions: int
    hot: HotKeys | None = None
    limit: StateLimit | None = None

    def wire(self) -> DataFrame:
        """The wire rows of all inputs; neighbours whose files are packed directly share their tasks."""
        parts: list[DataFrame] = []
        named: list[DataFrame] = []
        numbered = enumerate(zip(self.query.inputs, self.layouts, strict=True))
        for is_direct, group in itertools.groupby(numbered, lambda each: self._is_direct(*each[1])):
            members = [(number, item, layout) for number, (item, layout) in group]
            if not is_direct:
                parts += [self._packed(*member) for member in members]
            elif not self._stage_reads:
                parts.append(self._packed_files(members))
            else:
                named += [self._named(number, item) for number, item, _ in members]
        ends = [] if self.control is None else [self._told(self.control, {"input": f"{END_OF_INPUT}"})]
        if named:  # a few names are one small task, not one for each input; one bucket needs no exchange then
            parts.append(reduce(DataFrame.unionAll, [*named, *ends]).coalesce(1))
        else:
            parts += ends
        return reduce(DataFrame.unionAll, parts)

    @property
    def read_by_stage(self) -> dict[int, FileInput[Pack]]:
        """The inputs, by number, whose rows name files for the stage to read."""
        numbered = enumerate(zip(self.query.inputs, self.layouts, strict=True))
        return {
            number: self._file_input(number, item, layout)
            for number, (item, layout) in numbered
            if self._stage_reads and self._is_direct(item, layout)
        }

    @property
    def late(self) -> dict[str, tuple[FileColumn, ...]]:
        """The columns, by alias, that may come after the join."""
        return {
            item.alias: wide_columns(self._file_columns(item, layout))
            for item, layout in zip(self.query.inputs, self.layouts, strict=True)
            if self._is_direct(item, layout)
        }

    @property
    def _stage_reads(self) -> bool:
        """Whether the stage reads files; a rank stage and a stage short of memory take what is packed."""
        few = self.grid.buckets <= READING_BUCKETS
        return few and self.limit is None and not self.query.joins_delayed

    def _is_direct(self, item: Input, layout: InputLayout) -> bool:
        """Whether an input's files go into chunks without an expression of Spark's between."""
        keys = [self._attribute(item, cls) for cls in layout.classes]
        return (
            item.stream.name in self.files
            and not item.filters
            and not layout.window.counts_rows
            and all(expr.is_column and type_ in (expr.type, None) for expr, type_ in keys)
        )

    def _named(self, number: int, item: Input) -> DataFrame:
        """A row for every bucket and file."""
        told = {"input": f"{number}", "rows": f"{NAMED}L", "chunk": f"CAST({PATH} AS BINARY)"}
        if self._tells_time:
            told["now_us"] = NOW_SQL
        return self._told(self.files[item.stream.name], told)

    def _told(self, frame: DataFrame, told: Mapping[str, str]) -> DataFrame:
        """A wire row for every bucket and row that tells these expressions; all in Spark, no Python."""
        known = {
            "bucket": f"explode(array({', '.join(map(str, self.labels))}))",
            "now_us": f"{UNKNOWN}L",
            "max_ts": f"{UNKNOWN}L",
            **told,
        }
        zeros = {"binary": "X''", "bigint": "0L"}
        texts = [
            f"{known.get(field.name, zeros.get(field.dataType.simpleString()))} AS {field.name}"
            for field in WIRE_SCHEMA
        ]
        return frame.selectExpr(*texts)

    def _packed_files(self, group: list[tuple[int, Input, InputLayout]]) -> DataFrame:
        packs = {number: self._file_input(number, item, layout) for number, item, layout in group}
        named = [(number, self.files[item.stream.name]) for number, item, _ in group]
        rows = number_files(named, self.partitions, tells_time=self._tells_time)
        return rows.mapInArrow(frugally(PackFiles(packs), self.limit), WIRE_SCHEMA)

    def _file_input(self, number: int, item: Input, layout: InputLayout) -> FileInput[Pack]:
        columns = self._file_columns(item, layout)
        pack = self._pack(number, layout, tuple(column.name for column in columns))
        # Under a limit of memory a batch is joined in pieces, each of which would open the files again.
        return FileInput(pack, columns, may_be_late=self.limit is None)

    def _file_columns(self, item: Input, layout: InputLayout) -> tuple[FileColumn, ...]:
        """What the chunks of an input hold, as columns of its files."""
        time = item.stream.event_time
        assert time is not None
        types = {column.name: column.type for column in item.stream.columns}
        columns = [FileColumn(TS, time, types[time], is_time=True)]
        for cls, name in layout.keys:
            column = self._attribute(item, cls)[0].columns[0].column
            columns.append(FileColumn(name, column, types[column], is_key=True))
        known = {column.name for column in columns}
        return (
            *columns,
            *(FileColumn(name, name, types[name]) for name in layout.payload if name not in known),
        )

    def _packed(self, number: int, item: Input, layout: InputLayout) -> DataFrame:
        projected, columns = self._projected(item, layout)
        return projected.mapInArrow(frugally(self._pack(number, layout, columns), self.limit), WIRE_SCHEMA)

    def _pack(self, number: int, layout: InputLayout, names: tuple[str, ...]) -> Pack:
        return Pack(number, layout, names, self.grid, self.labels, self.hot, self._chunk_bytes)

    @property
    def _chunk_bytes(self) -> int:
        least = 1 << 20
        return CHUNK_BYTES if self.limit is None else max(least, min(CHUNK_BYTES, self.limit.nbytes // 16))

    def _projected(self, item: Input, layout: InputLayout) -> tuple[DataFrame, tuple[str, ...]]:
        """One input as the columns its chunks hold, and which of them those are."""
        source = self.sources[item.stream.name].alias(item.alias)
        keep = " AND ".join(f"({expr.sql})" for expr in item.filters)
        selected = {TS: event_microseconds(item.stream, item.alias)}
        for cls, name in layout.keys:
            selected[name] = self._key(item, cls)
        payload = list(layout.payload)
        if layout.window.counts_rows:  # tuples of one instant are ordered by all their values
            payload += [
                column.name for column in item.stream.columns if column.name != item.stream.event_time
            ]
        for column in dict.fromkeys(payload):
            selected.setdefault(column, f"{quote_name(item.alias)}.{quote_name(column)}")
        if keep and not layout.window.counts_rows:  # what the filter drops need not travel to be counted
            selected = {
                name: text if name == TS else f"CASE WHEN {keep} THEN {text} END"
                for name, text in selected.items()
            }
        columns = tuple(selected)
        if keep:
            selected[KEEP] = keep
            columns += (KEEP,) if layout.window.counts_rows else ()
        if self._tells_time:
            selected[NOW] = NOW_SQL
        return source.selectExpr(*(f"{text} AS {quote_name(n)}" for n, text in selected.items())), columns

    @property
    def _tells_time(self) -> bool:
        """Whether the batch's own time travels with the tuples, for streams that may fall idle."""
        return any(stream.idle_after_us is not None for stream in self.query.streams)

    def _key(self, item: Input, cls: int) -> str:
        expr, type_ = self._attribute(item, cls)
        return expr.sql if type_ is None or expr.type == type_ else f"CAST({expr.sql} AS {type_})"

    def _attribute(self, item: Input, cls: int) -> tuple[Expr, str | None]:
        """An input's side of the equalities of a class, and the type in which they are compared."""
        attribute = self.query.graph.classes[cls].of(item.alias)
        assert attribute is not None
        return attribute.expr, self.query.graph.classes[cls].type
