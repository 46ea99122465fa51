"""Trees of outer, semi and anti joins: nodes that match combinations, and let go of what has no match."""
