"""The test kit as a user has it: a query over scripted batches, answers, late tuples, a clock, refusals."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest

from tests.paths import ROOT
from watersmeet.errors import ConfigurationError
from watersmeet.kernel import Shed, StateLimit
from watersmeet.sql import bind_query
from watersmeet.testing import Batch, InProcessEngine, Setup, declare, run_query

ORDERS = declare("orders", "id BIGINT, customer STRING, ts TIMESTAMP", event_time="ts", lateness="5 seconds")
PAYMENTS = declare("payments", "order_id BIGINT, amount DECIMAL(10, 2), ts TIMESTAMP", event_time="ts")
PAID = (
    "SELECT o.id, o.customer, p.amount, answer_time FROM orders [RANGE 1 HOUR] AS o, "
    "payments [RANGE 1 HOUR] AS p WHERE o.id = p.order_id AND p.amount > 10"
)
BATCHES: list[dict[str, Any]] = [
    {"orders": [(1, "ann", "12:00:00"), (2, "bob", "12:00:01")]},
    {"payments": [(1, "20.50", "12:30:00"), (2, "5.00", "12:30:00")]},
    {"payments": [{"ORDER_ID": 2, "amount": 99, "ts": "13:00:02"}], "orders": [(3, "cy", "13:30:00")]},
]
ANN = (1, "ann", Decimal("20.50"), dt.datetime(1970, 1, 1, 12, 30, tzinfo=dt.UTC))


@pytest.mark.parametrize("routing", ["shares", "pipeline", "rewrite"])
@pytest.mark.parametrize("direct_files", [False, True])
def test_answers_are_those_of_the_oracle(routing: str, direct_files: bool) -> None:
    result = run_query(
        PAID, BATCHES, streams=[ORDERS, PAYMENTS], flush=True, routing=routing, direct_files=direct_files
    )
    assert result.answers == [ANN], "the payment of bob's order came a second after its hour"
    assert result.matches_oracle()


def test_answers_come_with_the_batch_that_completes_them() -> None:
    query = bind_query(PAID, [ORDERS, PAYMENTS])
    with InProcessEngine(query) as engine:
        assert [len(engine.step(batch).answers) for batch in BATCHES] == [0, 1, 0]
        assert engine.end().answers == []
        with pytest.raises(ConfigurationError, match="the input has ended"):
            engine.step(BATCHES[0])


def test_late_tuples_are_dropped_and_counted() -> None:
    batches: list[dict[str, Any]] = [
        {"orders": [(1, "ann", "12:00:00")], "payments": [(9, 1, "12:00:00")]},
        {"orders": [(2, "bob", "11:59:54"), (3, "cy", "11:59:55")], "payments": [(2, 20, "12:00:00")]},
        {"payments": [(3, 20, "12:00:00")]},
    ]
    result = run_query(PAID, batches, streams=[ORDERS, PAYMENTS])
    assert [row[1] for row in result.answers] == ["cy"]
    assert result.late == {"orders": 1, "payments": 0}
    assert result.matches_oracle()


def test_a_tuple_without_event_time_takes_no_part() -> None:
    batches: list[dict[str, Any]] = [
        {"orders": [(1, "ann", None), (1, "bob", "12:00:00")], "payments": [(1, 20, "12:00:00")]}
    ]
    result = run_query(PAID, batches, streams=[ORDERS, PAYMENTS])
    assert [row[1] for row in result.answers] == ["bob"]
    assert result.steps[0].metrics["null_times_o"] == 1
    assert result.matches_oracle()


def test_the_batchs_own_time_makes_a_stream_idle() -> None:
    """While payments are idle the watermark follows orders alone, and DISTINCT lets its value out."""
    quiet = declare("payments", "order_id BIGINT, ts TIMESTAMP", event_time="ts", idle_after="10 seconds")
    query = bind_query(
        "SELECT DISTINCT o.id FROM orders [RANGE 1 HOUR] AS o, payments [RANGE 1 HOUR] AS p "
        "WHERE o.id = p.order_id",
        [ORDERS, quiet],
    )
    with InProcessEngine(query) as engine:
        first = Batch({"orders": [(1, "ann", "12:00:00")], "payments": [(1, "12:00:00")]}, now="00:00:00")
        assert engine.step(first).answers == []
        more = {"orders": [(2, "bob", "12:10:00")]}
        assert engine.step(more, now="00:00:05").answers == [], "payments may have more to say"
        assert engine.step({"orders": [(3, "cy", "12:10:01")]}, now="00:00:20").answers == [(1,)]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (
            {"invoices": [(1,)]},
            "the batch has tuples of invoices, which is not a stream here: orders, payments",
        ),
        ({"orders": [(1, "ann")]}, r"tuple 0 of orders has 2 values; orders has 3 columns: id, customer, ts"),
        (
            {"orders": [{"id": 1, "who": "ann"}]},
            "tuple 0 of orders has a column who; orders has id, customer",
        ),
        ({"orders": [("one", "ann", "12:00:00")]}, "tuple 0 of orders, column id: 'one' is not a bigint"),
        ({"orders": [(1, "ann", "noon")]}, "tuple 0 of orders, column ts: 'noon' is not a timestamp"),
    ],
)
def test_a_wrong_script_is_refused_by_name(batch: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run_query(PAID, [batch], streams=[ORDERS, PAYMENTS])


def test_a_pipeline_of_several_queries_is_asked_which() -> None:
    stream = (
        "CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 's', event_time = 'ts');\n"
        "CREATE SINK one WITH (format = 'json', path = 'one');\n"
        "CREATE SINK two WITH (format = 'json', path = 'two');\n"
        "INSERT INTO one SELECT a.k FROM s [RANGE 1 S] AS a, s [RANGE 1 S] AS b WHERE a.k = b.k;\n"
        "INSERT INTO two SELECT a.ts FROM s [RANGE 1 S] AS a, s [RANGE 1 S] AS b WHERE a.k = b.k;\n"
    )
    batches = [{"s": [(7, "00:00:01")]}]
    with pytest.raises(ConfigurationError, match="has 2 queries in it, and one is to be run: name its sink"):
        run_query(stream, batches)
    assert run_query(stream, batches, sink="one").answers == [(7,)]


def test_native_joins_cannot_run_in_process() -> None:
    with pytest.raises(ConfigurationError, match="Spark's own joins have no tasks of ours"):
        run_query(PAID, BATCHES, streams=[ORDERS, PAYMENTS], routing="native")


def test_state_is_read_back_only_where_a_worker_lacks_it() -> None:
    query = bind_query(PAID, [ORDERS, PAYMENTS])
    with InProcessEngine(query, Setup(partitions=1)) as engine:
        (head,) = _chunks_read(engine, lambda: None)
        assert head == 0
        assert _chunks_read(engine, lambda: None)[-1] == 0, "the worker has it"
        assert _chunks_read(engine, engine.move)[-1] > 0, "another worker has nothing"
        assert _chunks_read(engine, engine.restart)[-1] > 0
        assert _chunks_read(engine, engine.lose_caches)[-1] > 0


def _chunks_read(engine: InProcessEngine, before: Any) -> list[int]:
    """How many values each bucket read beside its head in a batch that brings one order."""
    before()
    engine.step({"orders": [(engine.cluster.batch, "ann", f"12:00:{engine.cluster.batch:02}")]})
    return [len(store.reads) - 1 for store in engine.cluster.stores.values()]


def test_tasks_that_fail_and_batches_that_are_repeated_change_nothing() -> None:
    query = bind_query(PAID, [ORDERS, PAYMENTS])
    for seed in range(5):
        with InProcessEngine(query, Setup(seed=seed)) as engine:
            found = []
            for batch in BATCHES:
                engine.fail_next_task()
                engine.repeat_next_batch()
                found += engine.step(batch).answers
            assert [row[1] for row in found] == ["ann"]


def test_a_limit_sheds_and_none_does_not() -> None:
    batches: list[dict[str, Any]] = [
        {"orders": [(n, "x" * 50, "12:00:00") for n in range(100)]},
        {"payments": [(n, 20, "12:00:01") for n in range(100)]},
    ]
    streams = [ORDERS, PAYMENTS]
    few = run_query(PAID, batches, streams=streams, state_limit=StateLimit(10_000), partitions=1)
    assert 0 < len(few.answers) < 100
    assert sum(step.metrics["shed_o"] + step.metrics["shed_p"] for step in few.steps) > 0
    everything = run_query(PAID, batches, streams=streams, state_limit=StateLimit(10_000, Shed.NONE))
    assert everything.matches_oracle()


def test_queries_that_share_a_dataflow_have_their_own_answers() -> None:
    streams = [ORDERS, PAYMENTS]
    queries = {
        "paid": bind_query(PAID, streams),
        "small": bind_query(PAID.replace("p.amount > 10", "p.amount <= 10"), streams),
    }
    with InProcessEngine(queries) as engine:
        steps = [engine.step(batch) for batch in BATCHES]
    found = {name: [row[1] for step in steps for row in step.by_query[name]] for name in queries}
    assert found == {"paid": ["ann"], "small": ["bob"]}


def test_no_jvm_is_started(no_java: None) -> None:
    """In a process of its own: nothing that the kit imports or runs asks for Java."""
    program = (
        "from tests.testing import test_run_query as t\n"
        "result = t.run_query(t.PAID, t.BATCHES, streams=[t.ORDERS, t.PAYMENTS], direct_files=True)\n"
        "from pyspark import SparkContext\n"
        "assert SparkContext._gateway is None and SparkContext._active_spark_context is None\n"
        "print(len(result.answers))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True, check=False
    )
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr
