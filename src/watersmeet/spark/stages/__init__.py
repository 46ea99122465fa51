"""Stateful stages: what a worker does with a bucket in a micro-batch, and how it keeps its state."""
