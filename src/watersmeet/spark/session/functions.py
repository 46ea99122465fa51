"""Takes out of a session the functions that reach the JVM, so that no spelling of their names finds them.

Binding refuses them first, with the place in the text (`sql/binding/functions.py`). This is for what binding
may not see: text that Spark and our parser would read differently.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

UNREACHABLE = ("reflect", "java_method", "try_reflect")


def remove_functions(spark: SparkSession) -> None:
    """Removes them from this session, and so from those that its streaming queries copy it to."""
    jvm: Any = spark.sparkContext._jvm
    registry: Any = spark._jsparkSession.sessionState().functionRegistry()
    some = jvm.scala.Option.apply
    for name in UNREACHABLE:
        identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
        registry.dropFunction(identifier(name, some("builtin"), some("system")))
