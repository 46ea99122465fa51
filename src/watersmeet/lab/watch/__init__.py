"""Small runs of RJoin and DHTJoin to step through, message by message, as text or as a page."""

from watersmeet.lab.watch.page import to_page
from watersmeet.lab.watch.recording import Recording
from watersmeet.lab.watch.scenarios import SCENARIOS, record
from watersmeet.lab.watch.text import to_text

__all__ = ["SCENARIOS", "Recording", "record", "to_page", "to_text"]
