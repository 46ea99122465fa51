"""Faults put into what runs across sites: links, marks, and plans that take over from each other."""

from __future__ import annotations

from tests.faults.fault import Fault

SITES = ("tests/testing/test_sites.py",)
TOPICS = ("tests/kernel/progress/test_link_pieces.py", "tests/kernel/columns", *SITES)
CHANGES = ("tests/testing/test_change_over.py",)
COMBINED = ("tests/testing/test_answers_at_one_site.py",)

SITE_FAULTS = (
    Fault(
        "marks of a link count before the files that they follow are read",
        "kernel/progress/link_marks.py",
        "waiting.pop(self.last.get(link, FIRST), None)",
        "waiting.pop(min(waiting, default=FIRST), None)",
        SITES,
    ),
    Fault(
        "the results of a join are believed to be as far as the fastest of its inputs",
        "spark/sites/link_file.py",
        "return {origin: min(",
        "return {origin: max(",
        SITES,
    ),
    Fault(
        "a tuple whose value decides takes every way",
        "spark/sites/pack.py",
        "if send.guard is not None and rows.num_rows:",
        "if False:",
        SITES,
    ),
    Fault(
        "a result whose value decides takes every way",
        "spark/sites/stage.py",
        "batch if send.guard is None else batch.filter(",
        "batch if True else batch.filter(",
        SITES,
    ),
    Fault(
        "a tuple that is late at its site is sent on",
        "spark/sites/stage.py",
        ">= before[alias]",
        ">= BEGINNING",
        SITES,
    ),
    Fault(
        "the end of a site's own input is taken for that of its links",
        "spark/sites/stage.py",
        "dict.fromkeys(self.plan.names, NEVER)",
        "dict.fromkeys(bounds.now, NEVER)",
        SITES,
    ),
    Fault(
        "marks of a topic count before all pieces of their batch are read",
        "kernel/progress/link_pieces.py",
        "batch.end[0] == link.last and batch.is_whole:",
        "batch.end[0] == link.last:",
        TOPICS,
    ),
    Fault(
        "a piece of a topic that comes again counts again",
        "kernel/progress/link_pieces.py",
        "if piece in came:",
        "if False:",
        TOPICS,
    ),
    Fault(
        "rows are cut into messages in the order in which they come",
        "kernel/columns/canonical_order.py",
        "ordered = in_canonical_order(whole).combine_chunks()",
        "ordered = whole",
        TOPICS,
    ),
    Fault(
        "a plan takes over before it has seen what its answers are made of",
        "plan/sites/change_over.py",
        "seen_us + max(lengths) + 1",
        "seen_us + max(lengths) // 3",
        CHANGES,
    ),
    Fault(
        "a plan is over at a site as soon as one of its origins is",
        "plan/sites/change_over.py",
        "min(marks.values()) >= self.until_us",
        "max(marks.values()) >= self.until_us",
        CHANGES,
    ),
    Fault(
        "values and groups wait for the fastest of the origins alone",
        "spark/sites/tail/hold_stage.py",
        "HoldInput(answers, min(",
        "HoldInput(answers, max(",
        COMBINED,
    ),
    Fault(
        "a value that is restored has never been let out",
        "spark/sites/tail/value_stage.py",
        "return DistinctValues.restore(self.plan.columns, snapshot, chunks)",
        "return self.fresh()",
        COMBINED,
    ),
    Fault(
        "plans that find answers at several sites are open to DISTINCT and aggregates",
        "plan/sites/advice.py",
        "if len(option.answer_sites) == 1]",
        "if option.answer_sites]",
        ("tests/plan/sites/test_advice.py",),
    ),
)
