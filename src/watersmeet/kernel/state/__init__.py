"""The live tuples of an input: payload in chunks, keys and times in slices, and when each expires."""

from watersmeet.kernel.state.chunks import Changes, ChangeTracker, PersistedChunk

__all__ = ["ChangeTracker", "Changes", "PersistedChunk"]
