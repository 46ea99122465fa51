"""Chord rings, stable or under churn (Stoica et al., SIGCOMM 2001)."""

from watersmeet.lab.overlay.chord.living_ring import LivingRing, LookupFailed
from watersmeet.lab.overlay.chord.ring import Ring, identifier
from watersmeet.lab.overlay.chord.stable_ring import StableRing

__all__ = ["LivingRing", "LookupFailed", "Ring", "StableRing", "identifier"]
