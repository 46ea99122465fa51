"""A simulated Chord overlay: protocols return actions, the overlay carries them out and counts messages."""

from watersmeet.lab.overlay.actions import (
    Action,
    Application,
    Direct,
    DirectGroup,
    Later,
    Message,
    MultiSend,
    Send,
)
from watersmeet.lab.overlay.counters import Counters
from watersmeet.lab.overlay.id_movement import balance_ids
from watersmeet.lab.overlay.network import Delivery, Overlay

__all__ = [
    "Action",
    "Application",
    "Counters",
    "Delivery",
    "Direct",
    "DirectGroup",
    "Later",
    "Message",
    "MultiSend",
    "Overlay",
    "Send",
    "balance_ids",
]
