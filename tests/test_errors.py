"""What an error shows of the text that it is about."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from watersmeet.errors import DataError, Span, SqlError, conceal


def test_of_a_long_line_the_part_around_the_mistake_is_shown_and_underlined() -> None:
    sql = "SELECT 1\n" + "x" * 500_000 + " wrong " + "y" * 500_000
    error = SqlError("no such thing", sql=sql, span=Span(500_010, 500_015))
    where, line, marks = str(error).split("\n")
    assert where == "query:2:500002: no such thing"
    assert len(line) < 300
    assert line[marks.index("^") : len(marks)] == "wrong"


@pytest.mark.parametrize("character", ["\x1b", "\x07", "\x9b", "\x7f", "\u202e", "\b", "\0"])
def test_no_message_steers_a_terminal(character: str) -> None:
    sql = f"SELECT 'a{character}b', wrong"
    shown = str(SqlError("no such column", sql=sql, span=Span(14, 19)))
    assert character not in shown + str(DataError(f"Spark failed: {character}[2J"))
    _, line, marks = shown.split("\n")
    assert line[marks.index("^") : len(marks)] == "wrong"


@pytest.mark.parametrize("secret", ["it's-planted", 'say "x"', "back\\planted", "a b&c=planted", "plänted"])
def test_a_secret_is_hidden_however_a_message_quotes_it(secret: str) -> None:
    conceal(secret)
    escaped = secret.replace("\\", "\\\\")
    for spelt in (secret, escaped.replace('"', '\\"'), escaped.replace("'", "\\'"), quote(secret, safe="")):
        assert str(DataError(f"Spark failed by '{spelt}'")) == "Spark failed by '***'"
