"""How the inputs of a query reach its first stage.

rows that Spark reads -> project -> pack -> exchange
names of files -> exchange                    the join reads the files itself, where its buckets are few
names of files                                the same for a single bucket: one partition, no exchange
names of files -> pack -> exchange            packing tasks read them otherwise
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from watersmeet.kernel import KEEP, TS, Grid, InputLayout, StateLimit
from watersmeet.query import Expr, Input, Query
from watersmeet.query.expression import quote_name
from watersmeet.spark.compile.tasks import (
    InputTask,
    PackNamedFiles,
    PackRows,
    ProjectedColumn,
    SendFileNames,
)
from watersmeet.spark.exchange.collect import NOW, NOW_SQL
from watersmeet.spark.exchange.file_input import FileInput, PackFiles
from watersmeet.spark.exchange.hot_keys import HotKeys
from watersmeet.spark.exchange.pack import Pack
from watersmeet.spark.sources.event_time import event_microseconds
from watersmeet.spark.sources.parquet.late_columns import wide_columns
from watersmeet.spark.sources.parquet.reader import ParquetReader
from watersmeet.spark.sources.parquet.rows import FileColumn
from watersmeet.spark.tuning import DEFAULT, Tuning
from watersmeet.spark.worker.frugal import frugally

Member = tuple[int, Input, InputLayout]


@dataclass(frozen=True, kw_only=True)
class InputPlanner:
    """Plans the inputs of one query for a first stage with these buckets."""

    query: Query
    layouts: tuple[InputLayout, ...]
    direct: Mapping[str, str | None]  # as in `TaskOptions`
    grid: Grid
    labels: tuple[int, ...]
    hot: HotKeys | None = None
    limit: StateLimit | None = None
    tuning: Tuning = DEFAULT

    def tasks(self) -> tuple[InputTask, ...]:
        """The tasks in order of the inputs; neighbours whose files are packed directly share theirs."""
        found: list[InputTask] = []
        for is_direct, group in itertools.groupby(self._members(), self._is_direct):
            members = list(group)
            if not is_direct:
                found += [self._pack_rows(*member) for member in members]
            elif self._stage_reads:
                found += [SendFileNames(number, item.stream.name) for number, item, _ in members]
            else:
                inputs = {member[0]: self._file_input(*member) for member in members}
                packs = {number: (own.pack, own.reader) for number, own in inputs.items()}
                streams = tuple((number, item.stream.name) for number, item, _ in members)
                found.append(PackNamedFiles(streams, frugally(PackFiles(packs), self.limit)))
        return tuple(found)

    @property
    def read_by_stage(self) -> dict[int, FileInput]:
        """The inputs, by number, whose rows name files for the stage to read."""
        if not self._stage_reads:
            return {}
        return {member[0]: self._file_input(*member) for member in self._members() if self._is_direct(member)}

    @property
    def late(self) -> dict[str, tuple[FileColumn, ...]]:
        """The columns, by alias, that may come after the join."""
        return {
            item.alias: wide_columns(self._file_columns(item, layout))
            for number, item, layout in self._members()
            if self._is_direct((number, item, layout))
        }

    @property
    def reports_time(self) -> bool:
        """Whether the batch's own time travels with the tuples."""
        return any(stream.needs_batch_time for stream in self.query.streams)

    def _members(self) -> list[Member]:
        pairs = zip(self.query.inputs, self.layouts, strict=True)
        return [(number, item, layout) for number, (item, layout) in enumerate(pairs)]

    @property
    def _stage_reads(self) -> bool:
        """Whether the stage reads files; a numbering stage and a stage short of memory take packed tuples."""
        few = self.grid.buckets <= self.tuning.reading_buckets
        return few and self.limit is None and not self.query.joins_delayed

    def _is_direct(self, member: Member) -> bool:
        """Whether an input's files go into chunks without an expression of Spark's between.

        A stream has one source in a query, so all inputs that are this stream are read in the same way.
        """
        name = member[1].stream.name
        return name in self.direct and all(
            self._is_bare(item, layout) for _, item, layout in self._members() if item.stream.name == name
        )

    def _is_bare(self, item: Input, layout: InputLayout) -> bool:
        """Whether an input needs no expression of Spark's."""
        keys = [self._attribute(item, cls) for cls in layout.classes]
        return (
            not item.filters
            and not layout.window.counts_rows
            and all(expr.is_column and type_ in (expr.type, None) for expr, type_ in keys)
        )

    def _file_input(self, number: int, item: Input, layout: InputLayout) -> FileInput:
        columns = self._file_columns(item, layout)
        pack = self._pack(number, item, layout, tuple(column.name for column in columns))
        # Under a limit of memory a batch is joined in pieces, each of which would open the files again; and
        # tuples that wait in a numbering stage outlive their files.
        may_be_late = self.limit is None and not self.query.joins_delayed
        reader = ParquetReader(columns, len(self.labels), may_be_late=may_be_late, tuning=self.tuning)
        return FileInput(pack, reader)

    def _file_columns(self, item: Input, layout: InputLayout) -> tuple[FileColumn, ...]:
        """What the chunks of an input hold, as columns of its files."""
        time = item.stream.event_time
        assert time is not None
        types = {column.name: column.type for column in item.stream.columns}
        root = self.direct[item.stream.name]
        columns = [FileColumn(TS, time, types[time], is_time=True, root=root)]
        for cls, name in layout.keys:
            column = self._attribute(item, cls)[0].columns[0].column
            columns.append(FileColumn(name, column, types[column], is_key=True, root=root))
        known = {column.name for column in columns}
        return (
            *columns,
            *(FileColumn(name, name, types[name], root=root) for name in layout.payload if name not in known),
        )

    def _pack_rows(self, number: int, item: Input, layout: InputLayout) -> PackRows:
        projected, columns = self._projected(item, layout)
        pack = frugally(self._pack(number, item, layout, columns), self.limit)
        return PackRows(number, item.stream.name, item.alias, projected, pack)

    def _pack(self, number: int, item: Input, layout: InputLayout, names: tuple[str, ...]) -> Pack:
        tuning = self.tuning
        if self.limit is not None:
            most = max(1 << 20, min(tuning.chunk_bytes, self.limit.nbytes // 16))
            tuning = replace(tuning, chunk_bytes=most)
        return Pack(
            number=number,
            layout=layout,
            columns=names,
            grid=self.grid,
            labels=self.labels,
            hot=self.hot,
            max_ahead_us=item.stream.max_ahead_us if item.stream.event_time else None,
            tuning=tuning,
        )

    def _projected(
        self, item: Input, layout: InputLayout
    ) -> tuple[tuple[ProjectedColumn, ...], tuple[str, ...]]:
        """One input as the columns its chunks hold, and which of them those are."""
        keep = " AND ".join(f"({expr.sql})" for expr in item.filters)
        selected = {TS: ProjectedColumn(TS, event_microseconds(item.stream, item.alias), "bigint")}
        for cls, name in layout.keys:
            selected[name] = self._key(item, cls, name)
        payload = list(layout.payload)
        if layout.window.counts_rows:  # tuples of one instant are ordered by all their values
            payload += [
                column.name for column in item.stream.columns if column.name != item.stream.event_time
            ]
        types = {column.name: column.type for column in item.stream.columns}
        for column in dict.fromkeys(payload):
            text = f"{quote_name(item.alias)}.{quote_name(column)}"
            selected.setdefault(column, ProjectedColumn(column, text, types[column]))
        if keep and not layout.window.counts_rows:  # what the filter drops need not travel to be counted
            selected = {
                name: column
                if name == TS
                else ProjectedColumn(name, f"CASE WHEN {keep} THEN {column.sql} END", column.type)
                for name, column in selected.items()
            }
        columns = tuple(selected)
        if keep:
            selected[KEEP] = ProjectedColumn(KEEP, keep, "boolean")
            columns += (KEEP,) if layout.window.counts_rows else ()
        if self.reports_time:
            selected[NOW] = ProjectedColumn(NOW, NOW_SQL, "bigint")
        return tuple(selected.values()), columns

    def _key(self, item: Input, cls: int, name: str) -> ProjectedColumn:
        expr, type_ = self._attribute(item, cls)
        text = expr.sql if type_ is None or expr.type == type_ else f"CAST({expr.sql} AS {type_})"
        return ProjectedColumn(name, text, type_ or expr.type)

    def _attribute(self, item: Input, cls: int) -> tuple[Expr, str | None]:
        """An input's side of the equalities of a class, and the type in which they are compared."""
        attribute = self.query.graph.classes[cls].of(item.alias)
        assert attribute is not None
        return attribute.expr, self.query.graph.classes[cls].type
