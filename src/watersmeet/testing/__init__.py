"""A test kit: queries over scripted micro-batches in process, with the engine's own tasks and no JVM."""

from watersmeet.testing.engine import InProcessEngine, Step
from watersmeet.testing.run import Result, declare, run_query
from watersmeet.testing.script import Batch
from watersmeet.testing.setup import Setup

__all__ = ["Batch", "InProcessEngine", "Result", "Setup", "Step", "declare", "run_query"]
