"""From a physical plan to what Spark runs: a description of the tasks, and the DataFrames wired from it."""

from watersmeet.spark.compile.compile import Compiler
from watersmeet.spark.compile.plan_tasks import plan_tasks
from watersmeet.spark.compile.tasks import DistinctTasks, JoinTasks, QueryTasks, TaskOptions

__all__ = ["Compiler", "DistinctTasks", "JoinTasks", "QueryTasks", "TaskOptions", "plan_tasks"]
