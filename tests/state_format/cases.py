"""A fixed set of queries, and a few fixed tuples for each of their streams.

Never change what is here: golden files and checkpoints of every version are of these. Add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.plan.multiquery.plan_dataflow import Registered, plan_dataflow
from watersmeet.plan.physical import PhysicalPlan, plan_physical
from watersmeet.query import Query, Stream
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.sql import bind_query, parse_pipeline

SECOND_US = 1_000_000
PARTITIONS = 3

DECLARED = """
CREATE STREAM orders (id BIGINT, customer STRING, amount DECIMAL(10,2), ts TIMESTAMP)
  WITH (format = 'parquet', path = 'orders', event_time = 'ts', lateness = '2 seconds');
CREATE STREAM payments (order_id INT, customer STRING, method STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'payments', event_time = 'ts', lateness = '2 seconds');
CREATE STREAM visits (customer STRING, page STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'visits', event_time = 'ts', lateness = '2 seconds');
"""
STREAMS = parse_pipeline(DECLARED).streams

JOIN = (
    "FROM orders [RANGE 10 SECONDS] AS o, payments [TUMBLE 1 MINUTE] AS p, visits [UNBOUNDED] AS v "
    "WHERE o.customer = p.customer AND p.customer = v.customer"
)
CHAIN = (
    "FROM orders [RANGE 10 SECONDS] AS o, payments [RANGE 20 SECONDS] AS p, visits [RANGE 5 SECONDS] AS v "
    "WHERE o.id = p.order_id AND p.customer = v.customer"
)
ROWS = (
    "FROM orders [ROWS 3] AS o, payments [TUMBLE 4 ROWS] AS p, visits [RANGE 5 SECONDS] AS v "
    "WHERE o.customer = p.customer AND p.customer = v.customer"
)


@dataclass(frozen=True)
class StateCase:
    """A query, and how it is routed."""

    sql: str
    routing: str = "shares"

    @cached_property
    def query(self) -> Query:
        return bind_query(self.sql, STREAMS)

    @cached_property
    def plan(self) -> PhysicalPlan:
        return plan_physical(self.query, PARTITIONS, routing=self.routing)


CASES = {
    "windows-of-time": StateCase(
        f"SELECT o.id, o.amount AS price, v.page, answer_time {JOIN} "
        "AND o.amount > 10 AND p.method <> 'cash' AND o.ts <= v.ts"
    ),
    "windows-of-rows": StateCase(f"SELECT o.id, p.method, v.page {ROWS} AND o.amount > 10"),
    "last-of-each-value": StateCase(
        "SELECT o.id, p.method FROM orders [RANGE 10 SECONDS] AS o, payments [PARTITION BY customer ROWS 1] "
        "AS p WHERE o.customer = p.customer AND p.method <> 'cash'"
    ),
    "distinct": StateCase(f"SELECT DISTINCT o.customer, length(v.page) AS n {JOIN}"),
    "aggregate": StateCase(
        f"SELECT p.method, SUM(o.amount) AS total {JOIN} GROUP BY p.method HAVING COUNT(*) > 1 "
        "EMIT EVERY 2 SECONDS"
    ),
    "at-the-end-of-windows": StateCase(
        "SELECT o.customer, COUNT(*) AS n FROM orders [TUMBLE 5 SECONDS] o, visits [TUMBLE 5 SECONDS] v "
        "WHERE o.customer = v.customer GROUP BY o.customer EMIT AT END"
    ),
    "chain-by-shares": StateCase(f"SELECT o.amount, v.page {CHAIN}"),
    "pipeline": StateCase(f"SELECT o.amount, v.page {CHAIN}", "pipeline"),
    "rewriting": StateCase(
        "SELECT p.method, o.amount, v.page FROM payments [RANGE 20 SECONDS] AS p, "
        "orders [RANGE 10 SECONDS] AS o, visits [RANGE 5 SECONDS] AS v "
        "WHERE o.id = p.order_id AND p.customer = v.customer",
        "rewrite",
    ),
    "outer-joins": StateCase(
        "SELECT o.id, p.method FROM orders [RANGE 10 SECONDS] AS o "
        "LEFT JOIN (payments [TUMBLE 1 MINUTE] AS p JOIN visits [RANGE 1 MINUTE] AS v "
        "ON p.customer = v.customer AND p.method < v.page) "
        "ON o.customer = p.customer AND o.id = p.order_id AND o.amount > 10 "
        "WHERE p.method IS NULL OR o.id > 7"
    ),
    "semi-and-anti-joins": StateCase(
        "SELECT o.id FROM orders [RANGE 10 SECONDS] AS o WHERE o.id > 7 "
        "AND EXISTS (SELECT 1 FROM payments [UNBOUNDED] AS p WHERE p.customer = o.customer) "
        "AND o.customer NOT IN (SELECT v.customer FROM visits [RANGE 5 SECONDS] AS v)"
    ),
    "outer-joins-in-stages": StateCase(
        "SELECT o.id, p.method, v.page FROM orders [RANGE 10 SECONDS] AS o "
        "LEFT JOIN payments [TUMBLE 1 MINUTE] AS p ON o.id = p.order_id AND o.amount > 10 "
        "FULL JOIN visits [RANGE 1 MINUTE] AS v ON p.customer = v.customer",
        "pipeline",
    ),
    "native": StateCase(f"SELECT o.amount, v.page {CHAIN}", "native"),
}

SHARED = {
    "chain": f"SELECT o.amount, v.page {CHAIN}",
    "pair": "SELECT p.method, v.page FROM payments [RANGE 20 SECONDS] AS p, visits [RANGE 5 SECONDS] AS v "
    "WHERE p.customer = v.customer AND v.page = 'home'",
}
TAILS = {
    "total": "SELECT SUM(o.amount) AS total FROM orders [RANGE 10 SECONDS] AS o, "
    "visits [RANGE 5 SECONDS] AS v WHERE o.customer = v.customer AND v.page = 'home' EMIT EVERY 2 SECONDS",
    "values": "SELECT DISTINCT o.customer, v.page FROM orders [RANGE 10 SECONDS] AS o, "
    "visits [RANGE 5 SECONDS] AS v WHERE o.customer = v.customer",
}


def shared_queries(texts: Mapping[str, str] = SHARED) -> dict[str, Query]:
    return {name: bind_query(sql, STREAMS) for name, sql in texts.items()}


def shared_dataflow(texts: Mapping[str, str] = SHARED) -> SharedDataflow:
    """Two queries in one dataflow."""
    registered = [
        Registered(name, number, query) for number, (name, query) in enumerate(shared_queries(texts).items())
    ]
    return plan_dataflow(registered, STREAMS, 2)


def _tuples(stream: Stream, batch: int) -> list[Tuple]:
    """Three tuples, of customers who are there in every batch and in every stream."""
    values: dict[str, list[object]] = {
        "id": [10 * batch + n for n in range(3)],
        "order_id": [10 * batch + n for n in range(3)],
        "customer": ["ada", "bo", None],
        "amount": ["12.50", "99.00", "11.00"],
        "method": ["card", "cash", "card"],
        "page": ["home", "cart", "home"],
    }
    names = [column.name for column in stream.columns if column.name != stream.event_time]
    return [
        Tuple((3 * batch + n) * SECOND_US + 1, {name: _typed(name, values[name][n]) for name in names})
        for n in range(3)
    ]


def _typed(name: str, value: object) -> object:
    return Decimal(str(value)) if name == "amount" else value


BATCHES: list[MicroBatch] = [
    {stream.name: _tuples(stream, number) for stream in STREAMS} for number in range(3)
]
