"""Every refusal and a dozen bound queries, word for word.

A file under golden/ holds a text, a line of =====, and what comes of it: the message of its refusal, or
its queries. WATERSMEET_GOLDEN=write rewrites the second half; read the difference before keeping it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import check_golden
from watersmeet.errors import SqlError
from watersmeet.sql import bind_derived, bind_select, parse_pipeline, parse_statements

GOLDEN = Path(__file__).parent / "golden"
SEPARATOR = "\n=====\n"
STREAMS = parse_pipeline((GOLDEN / "streams.sql").read_text()).streams


def bind_over_shared_streams(text: str) -> str:
    """The text's queries, pretty, over the shared streams and those it declares itself; answers first."""
    statements = parse_statements(text, "case.sql")
    catalog = {stream.name: stream for stream in (*STREAMS, *statements.streams, *statements.tables)}
    derived = bind_derived(statements, catalog)
    answers = [
        f"stream {each.pretty()}\n{each.answers.pretty()}" for each in derived if each.answers is not None
    ]
    queries = [bind_select(select, catalog, statements.sinks) for select in statements.selects]
    return "\n\n".join([*answers, *(query.pretty() for query in queries)])


@pytest.mark.parametrize("path", sorted((GOLDEN / "refusals").iterdir()), ids=lambda path: path.stem)
def test_a_refusal_says_what_where_and_what_instead(path: Path) -> None:
    text = path.read_text().split(SEPARATOR)[0]
    with pytest.raises(SqlError) as refusal:
        bind_over_shared_streams(text)
    check_golden(path, f"{text}{SEPARATOR}{refusal.value}")
    assert "\x1b" not in str(refusal.value)


@pytest.mark.parametrize("path", sorted((GOLDEN / "queries").iterdir()), ids=lambda path: path.stem)
def test_a_query_binds_to_what_it_means(path: Path) -> None:
    text = path.read_text().split(SEPARATOR)[0]
    check_golden(path, f"{text}{SEPARATOR}{bind_over_shared_streams(text)}")
