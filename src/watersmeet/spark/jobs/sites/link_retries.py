"""How a site bears a link that is cut: it tries again until the link is there, with longer and longer pauses.

Nothing is lost meanwhile: the batch that could not be sent is done again, the next ones wait in the sources,
and a site that gets nothing keeps what it has. All other failures are tried again as those of any query are.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import LinkError, WatersmeetError
from watersmeet.spark.jobs.retries import FIRST_PAUSE_S, Retries
from watersmeet.spark.session.failures import NO_BROKER

LONGEST_PAUSE_S = 60.0


@dataclass
class LinkRetries(Retries):
    """Tries a link again for as long as it takes; `has_topics` is whether some link is of Kafka."""

    has_topics: bool = False
    _waits: int = 0

    def pause_s(self, error: WatersmeetError) -> float | None:
        is_of_link = isinstance(error, LinkError) or (self.has_topics and str(error).startswith(NO_BROKER))
        if not is_of_link:
            return super().pause_s(error)
        pause = min(FIRST_PAUSE_S * 2.0**self._waits, LONGEST_PAUSE_S / 2)
        self._waits += 1
        return pause * (1 + self.draw())

    def reset(self) -> None:
        super().reset()
        self._waits = 0
