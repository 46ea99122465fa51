"""Aggregates over the answers sampled at each tick, as texts for Spark."""
