"""How the inputs of a query reach its first stage.

rows that Spark reads -> project -> pack -> exchange
names of files -> exchange                    the join reads the files itself, where its buckets are few
names of files                                the same for a single bucket: one partition, no exchange
names of files -> pack -> exchange            packing tasks read them otherwise
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from watersmeet.kernel import IN_VIEW, KEEP, MARK, TS, Grid, InputLayout, StateLimit
from watersmeet.query import Expr, Input, Query, Reading
from watersmeet.query.expression import quote_name
from watersmeet.spark.compile.lay_out_tree import ComputedColumn
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

Member = tuple[Reading, Input, InputLayout]


@dataclass(frozen=True, kw_only=True)
class InputPlanner:
    """Plans the inputs of one query for a first stage with these buckets."""

    query: Query
    layouts: tuple[InputLayout, ...]
    direct: Mapping[str, str | None]  # as in `TaskOptions`
    grid: Grid
    labels: tuple[int, ...]
    grids: Mapping[str, Grid] = field(default_factory=dict)  # by alias, where they go to several stages
    hot: HotKeys | None = None
    limit: StateLimit | None = None
    computed: Mapping[str, Mapping[str, ComputedColumn]] = field(default_factory=dict)  # for a tree of joins
    tuning: Tuning = DEFAULT

    def tasks(self) -> tuple[InputTask, ...]:
        """The tasks in order of the inputs; neighbours whose files are packed directly share theirs."""
        found: list[InputTask] = []
        for is_direct, group in itertools.groupby(self._members(), self._is_direct):
            members = list(group)
            if not is_direct:
                found += [self._pack_rows(*member) for member in members]
            elif self._stage_reads:
                found += [SendFileNames(reading.number, reading.stream.name) for reading, _, _ in members]
            else:
                inputs = {member[0].number: self._file_input(*member) for member in members}
                packs = {number: (own.pack, own.reader) for number, own in inputs.items()}
                streams = tuple((reading.number, reading.stream.name) for reading, _, _ in members)
                found.append(PackNamedFiles(streams, frugally(PackFiles(packs), self.limit)))
        return tuple(found)

    @property
    def read_by_stage(self) -> dict[int, FileInput]:
        """The inputs, by number, whose rows name files for the stage to read."""
        if not self._stage_reads:
            return {}
        direct = filter(self._is_direct, self._members())
        return {member[0].number: self._file_input(*member) for member in direct}

    @property
    def late(self) -> dict[str, tuple[FileColumn, ...]]:
        """The columns, by alias, that may come after the join."""
        return {
            item.alias: wide_columns(self._file_columns(reading, item, layout))
            for reading, item, layout in self._members()
            if self._is_direct((reading, item, layout))
        }

    @property
    def reports_time(self) -> bool:
        """Whether the batch's own time travels with the tuples."""
        return any(stream.needs_batch_time for stream in self.query.streams)

    def _members(self) -> list[Member]:
        inputs, layouts = self.query.inputs, self.layouts
        return [(each, inputs[each.input], layouts[each.input]) for each in self.query.readings]

    @property
    def _stage_reads(self) -> bool:
        """Whether the stage reads files; one of several and one short of memory take packed tuples."""
        few = self.grid.buckets <= self.tuning.reading_buckets
        return few and not self.grids and self.limit is None and not self.query.numbers_rows

    def _is_direct(self, member: Member) -> bool:
        """Whether an input's files go into chunks without an expression of Spark's between.

        A stream has one source in a query, so all inputs that are this stream are read in the same way.
        """
        name = member[0].stream.name
        return name in self.direct and all(
            self._is_bare(*other) for other in self._members() if other[0].stream.name == name
        )

    def _is_bare(self, reading: Reading, item: Input, layout: InputLayout) -> bool:
        """Whether an input needs no expression of Spark's; a view may rename columns."""
        if len(item.stream.view) > 1 or (reading.branch is not None and not reading.branch.is_bare):
            return False
        keys = [self._attribute(item, cls) for cls in layout.classes]
        return (
            not item.filters
            and not self.computed.get(item.alias)
            and not layout.window.numbers_rows
            and all(expr.is_column and type_ in (expr.type, None) for expr, type_ in keys)
        )

    def _file_input(self, reading: Reading, item: Input, layout: InputLayout) -> FileInput:
        columns = self._file_columns(reading, item, layout)
        pack = self._pack(reading, item, layout, tuple(column.name for column in columns))
        # Under a limit of memory a batch is joined in pieces, each of which would open the files again; and
        # tuples that wait for the watermark outlive their files.
        may_be_late = self.limit is None and not self.query.joins_delayed and self.query.tree is None
        reader = ParquetReader(columns, len(self.labels), may_be_late=may_be_late, tuning=self.tuning)
        return FileInput(pack, reader)

    def _file_columns(self, reading: Reading, item: Input, layout: InputLayout) -> tuple[FileColumn, ...]:
        """What the chunks of an input hold, as columns of its files."""
        time = item.stream.event_time
        assert time is not None
        types = {column.name: column.type for column in item.stream.columns}
        root = self.direct[reading.stream.name]

        def of(name: str, column: str, *, is_time: bool = False, is_key: bool = False) -> FileColumn:
            held = reading.branch.origin(column) if reading.branch is not None else column
            return FileColumn(name, held, types[column], is_time=is_time, is_key=is_key, root=root)

        columns = [of(TS, time, is_time=True)]
        for cls, name in layout.keys:
            columns.append(of(name, self._attribute(item, cls)[0].columns[0].column, is_key=True))
        known = {column.name for column in columns}
        rest = dict.fromkeys((*layout.payload, *layout.order_by))
        return (*columns, *(of(name, name) for name in rest if name not in known))

    def _pack_rows(self, reading: Reading, item: Input, layout: InputLayout) -> PackRows:
        projected, columns = self._projected(reading, item, layout)
        pack = frugally(self._pack(reading, item, layout, columns), self.limit)
        return PackRows(reading, item.alias, projected, pack)

    def _pack(self, reading: Reading, item: Input, layout: InputLayout, names: tuple[str, ...]) -> Pack:
        tuning = self.tuning
        if self.limit is not None:
            most = max(1 << 20, min(tuning.chunk_bytes, self.limit.nbytes // 16))
            tuning = replace(tuning, chunk_bytes=most)
        return Pack(
            number=reading.input,
            reading=reading.number,
            layout=layout,
            columns=names,
            grid=self.grids.get(item.alias, self.grid),
            labels=self.labels,
            hot=self.hot,
            max_ahead_us=reading.stream.max_ahead_us if reading.stream.event_time else None,
            tuning=tuning,
        )

    def _projected(
        self, reading: Reading, item: Input, layout: InputLayout
    ) -> tuple[tuple[ProjectedColumn, ...], tuple[str, ...]]:
        """One input as the columns its chunks hold, and which of them those are."""
        leaves_out = reading.branch is not None and reading.branch.leaves_out
        in_view = f"{quote_name(item.alias)}.{IN_VIEW}"
        filters = [f"({expr.sql})" for expr in item.filters]
        is_first = leaves_out and not layout.window.counts_rows
        keep = " AND ".join([in_view, *filters] if is_first else filters)
        selected = {TS: ProjectedColumn(TS, event_microseconds(item.stream, item.alias), "bigint")}
        for cls, name in layout.keys:
            selected[name] = self._key(item, cls, name)
        payload = [*layout.payload, *layout.order_by]
        if layout.window.numbers_rows:  # tuples of one instant are ordered by all their values
            payload += [
                column.name for column in item.stream.columns if column.name != item.stream.event_time
            ]
        types = {column.name: column.type for column in item.stream.columns}
        computed = self.computed.get(item.alias, {})
        for column in dict.fromkeys(payload):
            text = f"{quote_name(item.alias)}.{quote_name(column)}"
            if column in computed:
                selected[column] = ProjectedColumn(column, computed[column].sql, computed[column].type)
            elif column not in selected:  # a key may be payload too, and is no column of the stream
                selected[column] = ProjectedColumn(column, text, types[column])
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
        if leaves_out:  # not even a ROWS window counts it
            selected[IN_VIEW] = ProjectedColumn(IN_VIEW, in_view, "boolean")
        if reading.stream.answers is not None:
            selected[MARK] = ProjectedColumn(MARK, f"{quote_name(item.alias)}.{MARK}", "bigint")
        if self.reports_time:
            selected[NOW] = ProjectedColumn(NOW, NOW_SQL, "bigint")
        return tuple(selected.values()), columns

    def _key(self, item: Input, cls: int, name: str) -> ProjectedColumn:
        expr, type_ = self._attribute(item, cls)
        # In a tree both sides need one type; else what is inferred may be wider than what Spark computes.
        is_of_type = expr.type == type_ and (expr.is_column or self.query.tree is None)
        text = expr.sql if type_ is None or is_of_type else f"CAST({expr.sql} AS {type_})"
        return ProjectedColumn(name, text, type_ or expr.type)

    def _attribute(self, item: Input, cls: int) -> tuple[Expr, str | None]:
        """An input's side of the equalities of a class, and the type in which they are compared."""
        attribute = self.query.graph.classes[cls].of(item.alias)
        assert attribute is not None
        return attribute.expr, self.query.graph.classes[cls].type
