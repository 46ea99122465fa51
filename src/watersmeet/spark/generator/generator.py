"""Made-up streams: the same options give the same tuples, row by row.

A tuple is a function of its row number alone, so any range of any stream can be made again, without Spark,
to check an answer against: `generate(parse_options(...), start, end)`. Row n happens at start + n / rate,
earlier by a random part of `disorder`: a lateness of `disorder` therefore loses nothing.

Options: stream, seed   whose tuples: streams of different names are independent
         rate           rows a second of event time, and of real time while it runs
         keys, skew     how many keys, and the exponent of their Zipf law (0: all alike)
         key_columns    the columns that hold the key, separated by commas (the first column)
         text           how a string is written, such as 'room {}'; else as an address 10.0.0.7
         values         numbers that are no keys are below this
         start          event time of row 0
         disorder       how much earlier than its turn in the stream a tuple may have happened
         payload        length of the values of binary columns
         rows           how many tuples there are; without it there is no end
         rows_per_batch how many a micro-batch takes at most
         partitions     how many tasks make them
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from watersmeet.errors import ConfigurationError
from watersmeet.query import Column, parse_duration
from watersmeet.query.arrow_types import arrow_type
from watersmeet.spark.generator import FORMAT

DEFAULT_COLUMNS = (
    Column("dest", "string"),
    Column("src", "string"),
    Column("size", "bigint"),
    Column("ts", "timestamp"),
)
MAX_SKEWED_KEYS = 10_000_000  # their distribution is a table
TAGS = 3  # the elements of an array

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Generator:
    """A made-up stream: everything its tuples depend on."""

    columns: tuple[Column, ...] = DEFAULT_COLUMNS
    stream: str = ""
    seed: int = 0
    rate: Fraction = Fraction(1000)
    keys: int = 1000
    skew: float = 0.0
    key_columns: tuple[str, ...] = ()
    text: str = ""
    values: int = 1500
    start_us: int = 1_735_689_600_000_000  # 2025-01-01 UTC
    disorder_us: int = 0
    payload: int = 16
    rows: int | None = None
    rows_per_batch: int | None = None
    partitions: int = 1

    def is_key(self, name: str) -> bool:
        named = self.key_columns or (self.columns[0].name,)
        return name.lower() in {column.lower() for column in named}


def parse_options(options: Mapping[str, str], columns: Sequence[Column] = DEFAULT_COLUMNS) -> Generator:
    """The generator that options describe; ConfigurationError names the option that does not do."""
    parsed: dict[str, Any] = {"columns": tuple(columns)}
    for option, value in options.items():
        name = option.lower().replace("rowsperbatch", "rows_per_batch").replace("keycolumns", "key_columns")
        if name not in _PARSERS:
            known = ", ".join(_PARSERS)
            raise ConfigurationError(f"{FORMAT} has no option '{option}'; it has {known}")
        field, parse = _PARSERS[name]
        try:
            parsed[field] = parse(value)
        except (ValueError, ZeroDivisionError) as error:
            raise ConfigurationError(f"{FORMAT}: {name} = '{value}' will not do: {error}") from None
    generator = Generator(**parsed)
    _check(generator)
    return generator


def _check(generator: Generator) -> None:
    if generator.skew and generator.keys > MAX_SKEWED_KEYS:
        raise ConfigurationError(f"{FORMAT}: with skew there can be {MAX_SKEWED_KEYS} keys at most")
    names = {column.name.lower() for column in generator.columns}
    if missing := [name for name in generator.key_columns if name.lower() not in names]:
        raise ConfigurationError(f"{FORMAT}: key_columns names '{missing[0]}', which is no column")
    for column in generator.columns:
        kind = arrow_type(column.type)
        if not _can_make(kind.value_type if pa.types.is_list(kind) else kind):
            raise ConfigurationError(f"{FORMAT} cannot make {column.name} {column.type}: only simple types")


def _whole(least: int) -> Any:
    def parse(text: str) -> int:
        if (number := int(text)) < least:
            raise ValueError(f"it must be at least {least}")
        return number

    return parse


def _parse_rate(text: str) -> Fraction:
    rate = Fraction(text).limit_denominator(1000)
    if rate <= 0:
        raise ValueError("it must be above 0")
    return rate


def _parse_skew(text: str) -> float:
    if not 0 <= (skew := float(text)) <= 10:
        raise ValueError("it must be between 0 and 10")
    return skew


def _parse_start(text: str) -> int:
    instant = datetime.fromisoformat(text)
    instant = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    since = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _parse_text(text: str) -> str:
    if text.count("{}") != 1:
        raise ValueError("write {} once, where the number goes")
    return text


_PARSERS: Mapping[str, tuple[str, Any]] = {
    "stream": ("stream", str),
    "seed": ("seed", int),
    "rate": ("rate", _parse_rate),
    "keys": ("keys", _whole(1)),
    "skew": ("skew", _parse_skew),
    "key_columns": ("key_columns", lambda text: tuple(name.strip() for name in text.split(","))),
    "text": ("text", _parse_text),
    "values": ("values", _whole(1)),
    "start": ("start_us", _parse_start),
    "disorder": ("disorder_us", parse_duration),
    "payload": ("payload", _whole(0)),
    "rows": ("rows", _whole(0)),
    "rows_per_batch": ("rows_per_batch", _whole(1)),
    "partitions": ("partitions", _whole(1)),
}


def generate(generator: Generator, start: int, end: int) -> pa.RecordBatch:
    """The tuples of rows start..end, end exclusive."""
    rows = np.arange(start, end, dtype=np.int64)
    keys = _draw_keys(generator, rows)
    arrays = [_make(generator, column, rows, keys) for column in generator.columns]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in generator.columns])


def _bits(generator: Generator, purpose: str, rows: Numbers) -> NDArray[np.uint64]:
    """64 random bits a row: SplitMix64 (Steele, Lea, Flood 2014) of the row number, salted."""
    salt = zlib.crc32(f"{generator.seed}/{generator.stream}/{purpose}".encode())
    state = (rows.astype(np.uint64) + np.uint64(salt << 32 | 1)) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def _uniform(generator: Generator, purpose: str, rows: Numbers) -> NDArray[np.float64]:
    return (_bits(generator, purpose, rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _below(generator: Generator, purpose: str, rows: Numbers, bound: int) -> Numbers:
    return (_uniform(generator, purpose, rows) * bound).astype(np.int64)


def _draw_keys(generator: Generator, rows: Numbers) -> Numbers:
    if not generator.skew:
        return _below(generator, "key", rows, generator.keys)
    probability = _uniform(generator, "key", rows)
    return np.searchsorted(_zipf(generator.keys, generator.skew), probability, side="right").astype(np.int64)


@lru_cache(maxsize=8)
def _zipf(keys: int, skew: float) -> NDArray[np.float64]:
    """The probability that the key is at most k: the k-th key weighs 1 / (k+1)^skew."""
    chances: NDArray[np.float64] = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -skew)
    chances /= chances[-1]
    chances[-1] = 1.0
    return chances


def _make(generator: Generator, column: Column, rows: Numbers, keys: Numbers) -> pa.Array:
    kind = arrow_type(column.type)
    if pa.types.is_list(kind):
        return _make_list(generator, column, kind, rows, keys)
    if pa.types.is_temporal(kind):
        return pa.array(_happened_us(generator, rows)).cast(pa.timestamp("us", tz="UTC")).cast(kind)
    if pa.types.is_binary(kind):
        return _make_bytes(generator, column, rows)
    is_key = generator.is_key(column.name)
    bound = generator.keys if pa.types.is_string(kind) else generator.values
    numbers = keys if is_key else _below(generator, column.name, rows, bound)
    if pa.types.is_floating(kind) and not is_key:
        return pa.array(_uniform(generator, column.name, rows) * generator.values).cast(kind)
    return _as_type(generator, kind, numbers)


def _can_make(kind: pa.DataType) -> bool:
    tests = (pa.types.is_primitive, pa.types.is_string, pa.types.is_binary, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _as_type(generator: Generator, kind: pa.DataType, numbers: Numbers) -> pa.Array:
    if pa.types.is_string(kind):
        return _write(generator, numbers)
    if pa.types.is_boolean(kind):
        return pa.array(numbers % 2 == 1)
    if pa.types.is_decimal(kind):
        # Little-endian 128-bit integers, unscaled; none is negative, so the upper halves are 0.
        unscaled = numbers % 10 ** min(kind.precision - kind.scale, 18) * 10 ** min(kind.scale, 9)
        halves = np.stack([unscaled, np.zeros_like(unscaled)], axis=1)
        shifted = pa.decimal128(kind.precision, min(kind.scale, 9))
        return pa.Array.from_buffers(shifted, len(numbers), [None, pa.py_buffer(halves)]).cast(kind)
    if pa.types.is_integer(kind):
        return pa.array(numbers % (1 << (kind.bit_width - 1)) if kind.bit_width < 64 else numbers).cast(kind)
    return pa.array(numbers).cast(kind)


def _write(generator: Generator, numbers: Numbers) -> pa.Array:
    """Numbers as text, without a Python string in between."""
    if generator.text:
        before, after = generator.text.split("{}")
        return pc.binary_join_element_wise(before, pa.array(numbers).cast(pa.string()), after, "")
    octets = [(numbers >> shift) & 255 for shift in (16, 8, 0)]
    parts = [10 + (numbers >> 24), *octets]
    return pc.binary_join_element_wise(*(pa.array(part).cast(pa.string()) for part in parts), ".")


def _make_list(
    generator: Generator, column: Column, kind: pa.DataType, rows: Numbers, keys: Numbers
) -> pa.Array:
    """A set of a few elements that follows from the key, in an order that does not."""
    numbers = keys if generator.is_key(column.name) else _below(generator, column.name, rows, generator.keys)
    first = _below(generator, f"{column.name} order", rows, TAGS)
    positions = (first[:, None] + np.arange(TAGS)) % TAGS
    elements = (numbers[:, None] * TAGS + positions).ravel()
    offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * TAGS)
    return pa.ListArray.from_arrays(offsets, _as_type(generator, kind.value_type, elements)).cast(kind)


def _make_bytes(generator: Generator, column: Column, rows: Numbers) -> pa.Array:
    length = generator.payload
    words = -(-length // 8)
    cells = (rows[:, None] * words + np.arange(words)).ravel()
    noise = _bits(generator, column.name, cells).view(np.uint8).reshape(len(rows), words * 8)
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(length)
    data = np.ascontiguousarray(noise[:, :length])
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _happened_us(generator: Generator, rows: Numbers) -> Numbers:
    rate = generator.rate
    due = generator.start_us + rows * (1_000_000 * rate.denominator) // rate.numerator
    if not generator.disorder_us:
        return due
    return due - _below(generator, "disorder", rows, generator.disorder_us + 1)
