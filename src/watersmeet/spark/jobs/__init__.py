"""Queries as they run: started, followed, stopped and resumed from their checkpoints."""

from watersmeet.spark.jobs.checkpoint import Checkpoint
from watersmeet.spark.jobs.dead_letters import DeadLetters
from watersmeet.spark.jobs.job import Job, RunOptions
from watersmeet.spark.jobs.pipeline_run import PipelineRun

__all__ = ["Checkpoint", "DeadLetters", "Job", "PipelineRun", "RunOptions"]
