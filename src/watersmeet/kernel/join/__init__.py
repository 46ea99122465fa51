"""The incremental multi-way join, its probing orders, and how a batch is cut for it."""

from watersmeet.kernel.join.multiway import MultiwayJoin

__all__ = ["MultiwayJoin"]
