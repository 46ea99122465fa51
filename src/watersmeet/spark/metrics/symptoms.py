"""Why nothing comes out of a query, from what its batches report: each likely cause is said once.

A cause is named while the query runs only if it holds for every row so far, and these are at least `ENOUGH`:
a stream whose first rows lack a value may well bring it later. Where a query's first run has taken all input
and has no answer, any number of rows will do, and it says where its rows went. A later run may bring none by
itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from watersmeet.query import Input, Query, format_duration
from watersmeet.query.expression import quote_name
from watersmeet.spark.metrics.progress import InputProgress, Progress

ENOUGH = 100  # rows of a stream


@dataclass
class Seen:
    """All that a run has reported of one input."""

    counts: Counter[str] = field(default_factory=Counter)
    null_keys: Counter[int] = field(default_factory=Counter)
    far: int = 0  # rows that came when their stream was too far behind a stream that is stamped on arrival
    near: int = 0  # all others

    def add(self, item: InputProgress) -> None:
        for name in ("read", "passed", "keyless", "null_times", "late", "ahead", "rows"):
            self.counts[name] += getattr(item, name)
        self.null_keys.update(dict(item.null_keys))


@dataclass
class Symptoms:
    """Follows the batches of one run of a query."""

    query: Query
    _seen: dict[str, Seen] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)
    _answers: int = 0
    _combinations: int = 0
    _is_first: bool | None = None  # whether this is the first run of the query; None before its first batch

    def observe(self, progress: Progress) -> list[str]:
        """What a batch makes certain, in words."""
        if self._is_first is None:
            self._is_first = progress.batch_id == 0
        self._answers += progress.answers
        self._combinations = progress.totals.combinations
        for item in progress.inputs:
            self._seen.setdefault(item.alias, Seen()).add(item)
        self._compare_with_arrivals(progress)
        return self._fresh(ENOUGH)

    def conclude(self, *, flushed: bool = False) -> list[str]:
        """What is certain once all input is taken, and where the rows of a query without answers went."""
        came = any(seen.counts["rows"] + seen.counts["read"] for seen in self._seen.values())
        if not self._is_first or self._answers or not came:
            return []
        return [*self._fresh(1), self._account(flushed=flushed)]

    def _fresh(self, enough: int) -> list[str]:
        found = []
        for item in self.query.inputs:
            seen = self._seen.get(item.alias)
            for cause, text in self._causes(item, seen, enough) if seen is not None else ():
                if f"{cause} {item.alias}" not in self._said:
                    self._said.add(f"{cause} {item.alias}")
                    found.append(text)
        return found

    def _causes(self, item: Input, seen: Seen, enough: int) -> Iterator[tuple[str, str]]:
        counts, stream = seen.counts, item.stream
        read = max(counts["read"], counts["rows"] + counts["null_times"])
        if stream.event_time is not None and counts["null_times"] == read >= enough:
            yield (
                "time",
                f"all {read} rows of {item.alias} are left out, since none has an event time: "
                f"{quote_name(stream.event_time)} is NULL in each. See whether its source calls it "
                "otherwise, or writes it in another form (event_time_unit, event_time_format)",
            )
        elif counts["keyless"] == counts["passed"] >= enough:
            for text in self._null_attributes(item, seen):
                yield (
                    text,
                    f"no tuple of {item.alias} can join: {text} is NULL in all {counts['passed']} of them. "
                    "See whether its source has this value, and calls it so",
                )
        if not self._answers and seen.far >= enough and not seen.near:
            yield (
                "arrival",
                f"{item.alias} never meets a stream that is stamped on arrival: its newest event time was "
                f"further back than the windows reach whenever its {seen.far} rows came. Give "
                f"{self._arriving} an event_time",
            )

    def _null_attributes(self, item: Input, seen: Seen) -> Iterator[str]:
        for number, count in sorted(seen.null_keys.items()):
            attribute = self.query.graph.classes[number].of(item.alias)
            if attribute is not None and count == seen.counts["passed"]:
                yield attribute.expr.sql

    @property
    def _arriving(self) -> str:
        """The streams that are stamped on arrival."""
        return " and ".join(stream.name for stream in self.query.streams if stream.event_time is None)

    def _compare_with_arrivals(self, progress: Progress) -> None:
        """Follows rows that come with an event time too old for any tuple that arrives now."""
        newest = {item.alias: item.max_ts_us for item in progress.inputs}
        arrived = [
            ts
            for item in self.query.inputs
            if item.stream.event_time is None and (ts := newest.get(item.alias)) is not None
        ]
        reach = [item.window.duration_us for item in self.query.inputs]
        if not arrived or None in reach:
            return
        oldest = max(arrived) - max(us for us in reach if us is not None)
        for item in progress.inputs:
            timed = self.query.input(item.alias).stream.event_time is not None
            if timed and item.rows and item.max_ts_us is not None:
                seen = self._seen[item.alias]
                if item.max_ts_us < oldest:
                    seen.far += item.rows
                else:
                    seen.near += item.rows

    def _account(self, *, flushed: bool) -> str:
        """Where the rows went."""
        parts = []
        for item in self.query.inputs:
            seen = self._seen.get(item.alias)
            if seen is not None:
                parts.append(f"{item.alias}: {_went(seen)}")
        return f"there is no answer. {'; '.join([*parts, self._joined(flushed=flushed)])}"

    def _joined(self, *, flushed: bool) -> str:
        """What became of the rows that were joined."""
        if self.query.waits_at_end and not flushed:
            return "answers wait for the watermark to pass them: more input lets them out, or --flush"
        if self._combinations:
            why = ", and none met the conditions over several streams" if self.query.residual else ""
            return f"{self._combinations} combinations joined{why}"
        if len(self.query.inputs) == 1:
            return "none was an answer"
        windows = sorted({us for item in self.query.inputs if (us := item.window.duration_us)})
        within = f" within {format_duration(windows[0])}" if windows else ""
        return f"no values were equal{within}"


def _went(seen: Seen) -> str:
    counts = seen.counts
    came = max(counts["read"], counts["rows"] + counts["null_times"]) + counts["ahead"]
    without = {
        "without an event time": counts["null_times"],
        "that no condition keeps": counts["read"] - counts["passed"],
        "with a NULL in the join": counts["keyless"],
        "late": counts["late"],
        "too far ahead": counts["ahead"],
    }
    left = ", ".join(f"{count} {why}" for why, count in without.items() if count > 0)
    return f"{came} rows" + (f", of these {left}" if left else "")
