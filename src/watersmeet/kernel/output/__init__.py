"""Answers between a join and its output: held for the watermark, sampled at ticks, distinct values once."""

from watersmeet.kernel.output.distinct import DistinctValues
from watersmeet.kernel.output.open_values import OpenValues

__all__ = ["DistinctValues", "OpenValues"]
