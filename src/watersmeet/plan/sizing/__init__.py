"""How much memory and how many partitions a query needs for answers as complete as wanted."""

from watersmeet.plan.sizing.completeness import SizeReport, size
from watersmeet.plan.sizing.state_size import StateReport

__all__ = ["SizeReport", "StateReport", "size"]
