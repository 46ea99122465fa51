"""The first bucket coordinates hot keys: it gets what packing tasks have counted, and decides what is hot.

Its state is a summary of the frequent values of each input and class, in which tuples fade as they leave
their windows, and the routing table in force. All is a function of the batches it has seen, so that a batch
that is done again is decided again in the same way.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.kernel import (
    Grid,
    HotTable,
    InputLayout,
    JoinLayout,
    Summary,
    Watermark,
    cool,
    coordinate,
    elapsed_us,
    fade,
    heat,
)
from watersmeet.plan.routing.hot_keys import ClassLoad, choose_hot
from watersmeet.query import BEGINNING, NEVER
from watersmeet.spark.exchange.hot_keys import HotKeys, batch_id, decode_summaries, summary_size, table_of
from watersmeet.spark.exchange.messages import Progress

EVIDENCE = 20  # of so many tuples that are seen before all else, one must be of a value to make it hot
CANDIDATES = 32  # values looked at, and four more for each cell of the axis

State = dict[str, Any]  # fit for JSON


@dataclass(frozen=True)
class HotKeyCoordinator:
    """Decides for one query; it holds nothing itself."""

    layout: JoinLayout
    streams: tuple[str, ...]  # the stream of each reading, those of the inputs first, in order
    grid: Grid
    hot: HotKeys

    def conclude(self, state: Mapping[str, Any], reported: Sequence[Progress], watermark: Watermark) -> State:
        """As `step`; leaves the table where the tasks of the next batch look for it."""
        after = self.step(state, reported, watermark)
        if (files := self.hot.files()) is not None:
            if table_of(after) != table_of(state):
                files.write(batch_id() + 1, table_of(after))
            else:
                files.forget(batch_id() + 1)
        return after

    def step(self, state: Mapping[str, Any], reported: Sequence[Progress], watermark: Watermark) -> State:
        """The state after a micro-batch; its table is for the next one."""
        seen = [watermark.max_ts[stream] for stream in self.streams if stream in watermark.max_ts]
        if not seen or watermark.now == NEVER:  # after the end of the input there is nothing to route
            return dict(state)
        clock = max(watermark.now, min(seen))
        blobs = sorted((message.input, message.summary) for message in reported if message.summary)
        counts = [(number, *decode_summaries(blob)) for number, blob in blobs]
        passed_us = elapsed_us(state.get("clock"), clock, (min_ts for _, min_ts, _ in counts))
        sketches = self._follow(state.get("sketches", {}), counts, passed_us)
        counted = state.get("rows", 0) + sum(s.total for _, _, by_class in counts for s in by_class.values())
        table = table_of(state).without_expired(watermark.now)
        newest = self._newest(watermark)
        if not self.hot.is_on:
            table = self._cool_all(table, newest)
        elif counted >= self.hot.min_rows:
            for cls in self.hot.classes:
                table = self._decide(table, cls, sketches, newest, passed_us)
        kept = {name: summary.to_json() for name, summary in sketches.items()}
        return {"clock": clock, "rows": counted, "sketches": kept, "table": table.to_json()}

    def _newest(self, watermark: Watermark) -> dict[str, int]:
        reached = [watermark.max_ts.get(stream, BEGINNING) for stream in self.streams]
        if len(self.streams) > len(self.layout.inputs):  # some input has tuples of several streams
            return {item.alias: max(reached) for item in self.layout.inputs}
        return {item.alias: ts for item, ts in zip(self.layout.inputs, reached, strict=True)}

    def _follow(
        self,
        before: Mapping[str, Any],
        counts: Sequence[tuple[int, int, Mapping[int, Summary]]],
        passed_us: int,
    ) -> dict[str, Summary]:
        """The summaries of what is about live: the old ones faded, the new ones as far as they still live."""
        size, sketches = summary_size(self.grid), {}
        for number, item in enumerate(self.layout.inputs):
            for cls in (cls for cls in item.classes if cls in self.hot.classes):
                name, windows = _name(item.alias, cls), passed_us / _window_us(item)
                old = Summary.from_json(before[name]) if name in before else Summary()
                new = (by[cls] for at, _, by in counts if at == number and cls in by)
                sketches[name] = fade(old, new, windows, size)
        return sketches

    def _decide(
        self,
        table: HotTable,
        cls: int,
        sketches: Mapping[str, Summary],
        newest: Mapping[str, int],
        passed_us: int,
    ) -> HotTable:
        members = [item for item in self.layout.inputs if cls in item.classes]
        aliases = [item.alias for item in members]
        lines = table.of(cls)
        hot = {line.hash: aliases.index(line.spread) for line in lines if not line.cooling}
        cooling = {line.hash: aliases.index(line.spread) for line in lines if line.cooling}
        load = self._load(cls, members, sketches, {line.hash for line in lines}, passed_us)
        chosen = choose_hot(load, hot, cooling)
        for line in lines:
            if line.hash in hot and line.hash not in chosen:
                table = cool(self.layout, table, line, newest)
        for value in sorted(chosen.keys() - hot.keys()):
            table = heat(self.layout, table, cls, value, aliases[chosen[value]], newest)
        return table

    def _load(
        self,
        cls: int,
        members: Sequence[InputLayout],
        sketches: Mapping[str, Summary],
        listed: set[int],
        passed_us: int,
    ) -> ClassLoad[int]:
        """Rates per microsecond of event time, of the values listed and the most frequent of the others.

        Of a value that is not listed some tuples must have been counted: many more than are live at a time,
        where a batch spans many windows.
        """
        cells = self.grid.shares[cls]
        windows = [float(_window_us(item)) for item in members]
        counted = [sketches[_name(item.alias, cls)] for item in members]
        tuples: dict[int, float] = {}
        for summary, window in zip(counted, windows, strict=True):
            for value, count in summary.counts.items():
                tuples[value] = tuples.get(value, 0.0) + count * max(1.0, passed_us / window)
        known = [value for value, count in tuples.items() if count >= self.hot.min_rows / EVIDENCE]
        frequent = heapq.nlargest(CANDIDATES + 4 * cells, known, key=lambda value: (tuples[value], value))
        values = sorted({*listed, *frequent})
        pairs = list(zip(counted, windows, strict=True))
        return ClassLoad(
            cells,
            tuple(windows),
            tuple(summary.total / window for summary, window in pairs),
            {v: tuple(summary.counts.get(v, 0.0) / window for summary, window in pairs) for v in values},
            {v: coordinate(v, cells) for v in values},
        )

    def _cool_all(self, table: HotTable, newest: Mapping[str, int]) -> HotTable:
        for line in table.values:
            if not line.cooling:
                table = cool(self.layout, table, line, newest)
        return table


def _window_us(item: InputLayout) -> int:
    assert item.window.duration_us is not None, "only classes with windows of time have hot values"
    return item.window.duration_us


def _name(alias: str, cls: int) -> str:
    return f"{cls} {alias}"
