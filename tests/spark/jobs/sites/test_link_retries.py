"""A link that is cut is tried again for as long as it takes; other failures are not."""

from __future__ import annotations

import pytest

from watersmeet.errors import DataError, LinkError, TransientError
from watersmeet.spark.jobs.retries import FIRST_PAUSE_S, RETRIES
from watersmeet.spark.jobs.sites.link_retries import LONGEST_PAUSE_S, LinkRetries
from watersmeet.spark.session.failures import NO_BROKER, explain_failure


def test_a_link_is_tried_again_for_ever_after_longer_and_longer_pauses() -> None:
    retries = LinkRetries(draw=lambda: 1.0)
    pauses = [retries.pause_s(LinkError("the link from a to b cannot be written")) for _ in range(12)]
    assert pauses[:3] == [2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S, 8 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    retries.reset()
    assert retries.pause_s(LinkError("again")) == 2 * FIRST_PAUSE_S


def test_other_failures_are_tried_a_few_times_or_not_at_all() -> None:
    retries = LinkRetries(draw=lambda: 0.0)
    assert retries.pause_s(DataError("damaged")) is None
    assert [retries.pause_s(TransientError("busy")) is None for _ in range(RETRIES + 1)] == [
        *[False] * RETRIES,
        True,
    ]


@pytest.mark.parametrize("has_topics", [True, False])
def test_a_broker_that_does_not_answer_is_a_cut_link_where_links_are_topics(has_topics: bool) -> None:
    silent = DataError(f"{NO_BROKER}. See whether its brokers run")
    assert (LinkRetries(has_topics=has_topics).pause_s(silent) is not None) == has_topics


def test_what_a_sender_raises_is_known_again_after_its_way_through_spark() -> None:
    text = "watersmeet.errors.LinkError: the link from a to b cannot be written: it is full\n\tat org.apache"
    found = explain_failure(RuntimeError(text))
    assert isinstance(found, LinkError)
    assert str(found) == "the link from a to b cannot be written: it is full"
