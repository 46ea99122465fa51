"""Joins within a limit of memory: which tuples go first, and how complete the answers still are."""

from watersmeet.kernel.shedding.limit import Shed, StateLimit

__all__ = ["Shed", "StateLimit"]
