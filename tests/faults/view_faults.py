"""Faults put into views, tables and streams of answers."""

from __future__ import annotations

from tests.faults.fault import Fault

VIEWS = ("tests/testing/test_views.py",)

CHAINS = ("tests/testing/test_chains.py",)

VIEW_FAULTS = (
    Fault(
        "what a view leaves out is a tuple all the same",
        "spark/exchange/pack.py",
        "            usable &= np.asarray(pc.fill_null(batch.column(IN_VIEW), False))\n",
        "            pass\n",
        VIEWS,
    ),
    Fault(
        "a branch of a view reports as the first one",
        "spark/exchange/pack.py",
        "input=self.reading,\n            max_ts",
        "input=self.number,\n            max_ts",
        VIEWS,
    ),
    Fault(
        "a view is as far as the stream that is furthest ahead",
        "query/query.py",
        "for each in item.stream.origins}.values())",
        "for each in item.stream.origins[:1]}.values())",
        VIEWS,
    ),
    Fault(
        "columns of files are read by the names of the view",
        "spark/compile/plan_inputs.py",
        "held = reading.branch.origin(column) if reading.branch is not None else column",
        "held = column",
        VIEWS,
    ),
    Fault(
        "an answer says how far its stream has come",
        "kernel/progress/watermark.py",
        "            return self.marks.get(stream, BEGINNING)\n",
        "            return self.max_ts.get(stream, BEGINNING)\n",
        CHAINS,
    ),
    Fault(
        "a mark forgets that rows without a match come later",
        "spark/chains/log_sink.py",
        "max(BEGINNING, watermark - delay_us)",
        "max(BEGINNING, watermark)",
        CHAINS,
    ),
)
