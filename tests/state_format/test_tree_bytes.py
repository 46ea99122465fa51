"""What a tree of outer joins leaves in the state store."""

from __future__ import annotations

import pyarrow as pa

from tests.state_format.golden import compare
from tests.state_format.stored import Persisted
from tests.testing.outer_queries import condition, leaf, node, query
from watersmeet.kernel import TS, BatchInput, JoinBucket, Punctuation, plan_bucket
from watersmeet.query import JoinKind, rows, tumble_us
from watersmeet.spark.compile.lay_out_tree import lay_out_tree

ON = condition("a.v + 1 < b.v", "a.v", "b.v")


def test_a_tree_keeps_both_sides_of_each_node_and_what_has_found_a_match() -> None:
    lower = node(JoinKind.LEFT, leaf("a"), leaf("b"), ("a.k", "b.k"), on=[ON])
    asked = query(node(JoinKind.FULL, lower, leaf("c"), ("a.k", "c.k")), {"b": tumble_us(7)})
    laid_out = lay_out_tree(asked)
    bucket, kept = JoinBucket(plan_bucket(asked, tree=(laid_out.layout, laid_out.tree))), Persisted()
    for since in (0, 6):
        tuples = {}
        for item in laid_out.layout.inputs:
            columns = {TS: pa.array([since, since + 1, since + 2])}
            for name in item.columns[1:]:
                values = {"k": [1, 2, None], "v": [3, 3, 4]}.get(name, [2, 3, 4])  # a.v + 1, say
                columns[name] = pa.array(values, pa.int64())
            tuples[item.alias] = pa.RecordBatch.from_pydict(columns)
        ends = {stream.name: since + 2 for stream in asked.streams}
        list(bucket.step(BatchInput(tuples, Punctuation(ends))))
        kept.keep(bucket)
    compare("bytes-tree", kept.describe())


def test_windows_of_rows_keep_the_ends_that_have_become_known() -> None:
    asked = query(node(JoinKind.LEFT, leaf("a"), leaf("b"), ("a.k", "b.k")), {"a": rows(2)})
    laid_out = lay_out_tree(asked)
    snapshot = JoinBucket(plan_bucket(asked, tree=(laid_out.layout, laid_out.tree))).snapshot()
    compare("bytes-tree-of-rows", {"snapshot": snapshot})
