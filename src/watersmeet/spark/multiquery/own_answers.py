"""The answers of one query that runs beside a shared dataflow, as rows of the sinks of that dataflow."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import ANSWER_TS
from watersmeet.query import ANSWER_TIME
from watersmeet.query.expression import quote_name
from watersmeet.spark.multiquery.answers import ANSWER, json_text
from watersmeet.spark.multiquery.culprits import Numbers
from watersmeet.spark.multiquery.sinks import NAME


@dataclass(frozen=True)
class OwnAnswers:
    """Makes rows of a query's answers, which have their times as a last column."""

    name: str
    number: int
    columns: tuple[str, ...]

    def found(self, answers: DataFrame) -> set[str]:
        """One template if the batch has answers; its state is due in any case."""
        return {self.name} if answers.count() else set()

    def rows(
        self, answers: DataFrame, found: set[str], numbers: Numbers, *, as_json: bool
    ) -> DataFrame | None:
        """The answers as every sink of a shared dataflow has them."""
        if self.number not in numbers:
            return None
        named, own = F.lit(self.name).alias(NAME), [quote_name(column) for column in self.columns]
        if as_json:
            answer = F.expr(json_text(", ".join(own))).alias(ANSWER)
            return answers.select(named, F.col(ANSWER_TS).alias(ANSWER_TIME), answer)
        return answers.select(named, *map(F.expr, own))

    def numbers(self, names: Container[str]) -> list[int]:
        """The query's own number, if its name is among these."""
        return [self.number] if self.name in names else []
