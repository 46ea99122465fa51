"""Numbers that stages report of each micro-batch, and how they are read back from Spark."""
