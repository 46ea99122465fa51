"""The 1998 World Cup logs' format, on generated files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from watersmeet.errors import DataError
from watersmeet.lab.figures.semijoin.access_log import (
    PAPER_DAYS,
    Request,
    log_feed,
    read_access_log,
    synthetic_log,
    write_access_log,
)
from watersmeet.query import range_us


@pytest.mark.parametrize("name", ["wc_day30_1", "wc_day30_1.gz"])
def test_a_log_reads_back_as_it_was_written(tmp_path: Path, name: str) -> None:
    requests = synthetic_log(PAPER_DAYS[0], 0.5, random.Random(1))
    write_access_log(tmp_path / name, requests)
    assert read_access_log(tmp_path / name) == requests
    assert len(requests) == 1185


def test_a_record_is_twenty_bytes_big_endian(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes.fromhex("355d6b10 00000102 00000003 00001000 00 02 01 20".replace(" ", "")))
    assert read_access_log(path) == [
        Request(timestamp=0x355D6B10, client=258, object=3, size=4096, method=0, status=2, type=1, server=32)
    ]


def test_what_is_not_a_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 21)
    with pytest.raises(DataError, match="21 bytes are not a whole number of 20-byte records"):
        read_access_log(path)
    path.write_bytes(b"\x1f\x8b broken")
    with pytest.raises(DataError, match="not a whole gzip file"):
        read_access_log(path)


def test_a_log_becomes_a_stream_ten_times_as_fast_joined_by_the_client() -> None:
    requests = [
        Request(timestamp=1000, client=7, object=0, size=0),
        Request(timestamp=1000, client=8, object=0, size=0),
        Request(timestamp=1002, client=9, object=0, size=0),
    ]
    feed = log_feed(requests, range_us(5))
    assert [(member.ts, member.keys) for member in feed.members] == [
        (0, (7,)),
        (50_000, (8,)),
        (200_000, (9,)),
    ]
    assert log_feed([], range_us(5)).members == ()


def test_synthetic_logs_have_the_published_rates_and_clients() -> None:
    for day in PAPER_DAYS:
        requests = synthetic_log(day, 3, random.Random(0))
        feed = log_feed(requests, range_us(5))
        assert len(requests) == 3 * day.rate_per_s
        assert feed.times[-1] == pytest.approx(3e6, rel=0.05)
        assert len({request.client for request in requests}) == pytest.approx(1 / day.factor, rel=0.05)
