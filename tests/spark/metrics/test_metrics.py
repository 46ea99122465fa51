"""Metrics are told by name, and nobody has to know their order."""

from __future__ import annotations

import pytest

from watersmeet.query import BEGINNING
from watersmeet.spark.metrics.metrics import Combine, Metric, Metrics, max_ts

LARGEST = Metric("largest", Combine.LARGEST)
METRICS = Metrics([LARGEST, Metric("one"), max_ts("s1"), Metric("two")])


def test_sums_come_first_in_whatever_order_they_are_declared() -> None:
    assert METRICS.names == ("one", "two", "largest", "max_ts_s1")


def test_what_buckets_report_is_put_together_by_name() -> None:
    texts = []
    for number in (3, 1):
        values = METRICS.start()
        values["max_ts_s1"] = 10 * number
        values.update(largest=number, two=2 * number)
        texts.append(values.text)
    assert METRICS.combined(texts) == {"one": 0, "two": 8, "largest": 3, "max_ts_s1": 30}
    assert METRICS.combined([METRICS.start().text])["max_ts_s1"] == BEGINNING
    assert METRICS.combined([]) == {}


def test_a_metric_that_is_not_declared_cannot_be_set() -> None:
    with pytest.raises(KeyError, match="no metric three is declared"):
        METRICS.start()["three"] = 3
