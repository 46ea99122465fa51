"""Faults put into trees of outer, semi and anti joins."""

from __future__ import annotations

from tests.faults.fault import Fault

TREES = ("tests/testing/test_random_trees.py", "tests/testing/test_outer_joins.py")
STAGES = ("tests/testing/test_tree_pipelines.py",)

OUTER_FAULTS = (
    Fault(
        "a side is judged by its own progress, not by the other's",
        "kernel/outer/node.py",
        "unmatched = side.release(self._bounds[OTHER[name]])",
        "unmatched = side.release(self._bounds[name])",
        TREES,
    ),
    Fault(
        "rows that come late from a join below are not waited for",
        "kernel/outer/node.py",
        "known.append(side.least_ts)",
        "known.append(self._bounds[name])",
        TREES,
    ),
    Fault(
        "a semi join answers with every match",
        "kernel/outer/node.py",
        "yield from self._rows_of(LEFT, np.sort(newly))",
        "yield from self._rows_of(LEFT, np.sort(pairs.rows[name]))",
        TREES,
    ),
    Fault(
        "keys whose hashes collide are equal",
        "kernel/outer/node.py",
        "keep &= same_values(a, b) & np.asarray(a.is_valid())",
        "keep &= np.asarray(a.is_valid())",
        ("tests/kernel/outer",),
    ),
    Fault(
        "which rows have found a match is forgotten in a restart",
        "kernel/outer/marks.py",
        "            self._set(rows)\n",
        "            self._set(rows[:0])\n",
        TREES,
    ),
    Fault(
        "a row that has left comes back in a restart",
        "kernel/outer/side.py",
        "live, valid = ends > bound,",
        "live, valid = ends >= bound,",
        TREES,
    ),
    Fault(
        "rows without a key are dropped in the join",
        "kernel/outer/tree_join.py",
        "keeps_unmatched=alone,",
        "keeps_unmatched=False,",
        TREES,
    ),
    Fault(
        "rows without a key are dropped before the join",
        "kernel/layout.py",
        "without_key = self.window.counts_rows or self.keeps_null",
        "without_key = self.window.counts_rows",
        TREES,
    ),
    Fault(
        "an unknown condition is met",
        "kernel/outer/condition.py",
        "return np.asarray(pc.fill_null(_evaluate(condition, column, rows), False))",
        "return np.asarray(pc.fill_null(_evaluate(condition, column, rows), True))",
        TREES,
    ),
    Fault(
        "tuples are copied along the keys of a tree",
        "plan/routing/tree.py",
        "shares = tuple(partitions if cls is meeting else 1 for cls in query.graph.classes)",
        "shares = tuple(partitions if cls is meeting else 2 for cls in query.graph.classes)",
        TREES,
    ),
    Fault(
        "results of another stage are taken to be as punctual as tuples",
        "kernel/outer/tree_join.py",
        "return _behind(batch.watermark, delay_us(part))",
        "return _behind(batch.watermark, 0)",
        STAGES,
    ),
    Fault(
        "results without a key are dropped on their way",
        "spark/stages/part_stage.py",
        "home = self._number if sent.keeps_null else None",
        "home = None",
        STAGES,
    ),
    Fault(
        "tuples for a later stage go by the buckets of the first",
        "spark/compile/plan_inputs.py",
        "grid=self.grids.get(item.alias, self.grid),",
        "grid=self.grid,",
        STAGES,
    ),
)
