"""Statistics of streams, measured from a sample of their sources."""

from watersmeet.spark.analyze.analyze import DEFAULT_SAMPLE_ROWS, analyze
from watersmeet.spark.analyze.sample import sample_inputs

__all__ = ["DEFAULT_SAMPLE_ROWS", "analyze", "sample_inputs"]
