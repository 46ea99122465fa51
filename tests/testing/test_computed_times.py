"""Event times that are computed from numbers or fields inside columns, through the engine in process."""

from __future__ import annotations

from watersmeet.testing import declare, run_query

ORDERS = declare("orders", "id BIGINT, at BIGINT", event_time="at", event_time_unit="milliseconds")
PAYMENTS = declare(
    "payments",
    "id BIGINT, event_time STRING, meta STRUCT<at: BIGINT>",
    event_time="meta.at",
    event_time_unit="seconds",
)


def test_streams_of_numbers_of_two_units_are_joined_by_their_instants() -> None:
    """The column is called event_time, or event_timestamp where the stream has such a column."""
    result = run_query(
        "SELECT o.id, o.at, p.event_time, answer_time FROM orders AS o, payments AS p WHERE o.id = p.id "
        "AND p.event_timestamp BETWEEN o.event_time AND o.event_time + INTERVAL 2 SECONDS",
        [
            {
                "orders": [(1, 1500), (2, 2500), (3, None), (4, 2**63 - 1)],
                "payments": [(1, "a", {"at": 3}), (2, "b", {"at": 9}), (3, "c", {"at": 1}), (2, "d", None)],
            },
            {"orders": [(9, 1400)], "payments": [(9, "late", {"at": 2})]},
        ],
        streams=[ORDERS, PAYMENTS],
    )
    assert result.rows == [(1, 1500, "a", 3_000_000)]
    assert result.matches_oracle()
    assert sum(step.metrics["null_times_o"] for step in result.steps) == 2
    assert sum(step.metrics["null_times_p"] for step in result.steps) == 1
    assert result.late == {"orders": 1, "payments": 1}
