"""What a lane keeps, as bytes: for the state store, which has it from time to time, and the input in between.

The halves are plain data but for what the plan gives them, and for the rows of their members. The first is
left out and put back from the plan; rows are put together as Arrow. `VERSION` of the plan's protocols is part
of every fingerprint, so no state is read by another version than wrote it.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.plan.sites.semijoin.multiway.at_site import SiteLane
from watersmeet.spark.sites.semijoin.rows import Row, gathered, nested

_OURS = ("watersmeet.plan.sites.semijoin.", "watersmeet.spark.sites.semijoin.")
_PLAIN = {"builtins", "collections", "datetime", "decimal"}
_STATE = "state"


def freeze(state: Any, lanes: Sequence[SiteLane]) -> pa.RecordBatch:
    """Anything that refers to members, and to what the lanes' plan gives, as one row of a batch."""
    given = {id(one): number for number, one in enumerate(_given(lanes))}
    rows: dict[tuple[str, ...], dict[int, Row]] = {}
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, given, rows)
    pickler.dump(state)
    columns: dict[str, pa.Array] = {_STATE: pa.array([buffer.getvalue()], pa.binary())}
    for number, known in enumerate(rows.values()):
        columns[str(number)] = nested(gathered(list(known.values())))
    return pa.RecordBatch.from_pydict(columns)


def thaw(frozen: pa.RecordBatch, lanes: Sequence[SiteLane]) -> Any:
    """What was frozen, for lanes of the same plan."""
    batches = [
        pa.RecordBatch.from_struct_array(frozen.column(name).flatten())
        for name in frozen.schema.names
        if name != _STATE
    ]
    body = frozen.column(_STATE)[0].as_py()
    return _Unpickler(io.BytesIO(body), list(_given(lanes)), batches).load()


def _given(lanes: Sequence[SiteLane]) -> list[Any]:
    """What comes from the plan, in an order that is the same in every process."""
    found: list[Any] = []
    for lane in lanes:
        for step in lane.steps:
            if step.leads:
                found += [step.source.join, step.source.join.target_key]
    return found


class _Pickler(pickle.Pickler):
    def __init__(
        self, file: io.BytesIO, given: dict[int, int], rows: dict[tuple[str, ...], dict[int, Row]]
    ) -> None:
        super().__init__(file, protocol=5)
        self._given = given
        self._rows = rows
        self._groups: dict[tuple[str, ...], int] = {}
        self._places: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, Row):
            names = tuple(obj.batch.schema.names)
            known = self._rows.setdefault(names, {})
            group = self._groups.setdefault(names, len(self._groups))
            known.setdefault(id(obj), obj)
            return ("row", group, self._places.setdefault(id(obj), len(known) - 1))
        number = self._given.get(id(obj))
        return None if number is None else ("given", number)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, given: list[Any], batches: list[pa.RecordBatch]) -> None:
        super().__init__(file)
        self._given = given
        self._batches = batches
        self._rows: dict[tuple[int, int], Row] = {}

    def persistent_load(self, pid: Any) -> Any:
        if pid[0] == "given":
            return self._given[pid[1]]
        key = pid[1], pid[2]
        if key not in self._rows:
            self._rows[key] = Row(self._batches[key[0]], key[1])
        return self._rows[key]

    def find_class(self, module_name: str, global_name: str) -> Any:
        if module_name in _PLAIN or module_name.startswith(_OURS):
            return super().find_class(module_name, global_name)
        raise DataError(
            f"the checkpoint names {module_name}.{global_name}, which no lane keeps: it is damaged"
        )
