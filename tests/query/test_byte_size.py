from __future__ import annotations

import pytest

from watersmeet.query.byte_size import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("512 MiB", 512 * 2**20),
        ("1.5 g", 1_500_000_000),
        (" 64kib ", 65536),
        ("7 bytes", 7),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "2 parsecs", "-1MB", "0", "2GB or so"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write a number and a unit, such as 256MB"):
        parse_bytes(text)


def test_sizes_are_shown_short() -> None:
    assert [format_bytes(size) for size in (999, 1500, 2_000_000, 3.25e9)] == [
        "999 B",
        "1.5 kB",
        "2.0 MB",
        "3.2 GB",
    ]
