"""Which tuples to keep by weight, such that what is missed can be estimated from what is found.

After priority sampling (Duffield, Lund, Thorup: *Priority sampling for estimation of arbitrary subset sums*,
J. ACM 2007) and the estimator of Horvitz and Thompson. A tuple has a fixed random number u in [0, 1) and a
weight w. Its priority is w / u^SHARPNESS; the tuples of highest priority stay. With the highest priority that
went, b, a tuple of weight w was included with probability min(1, w / b)^(1 / SHARPNESS), whatever became of
it. It is judged anew each time tuples are shed, always with the same u: so its inclusion probability is the
least of all these. An answer found of tuples with probabilities p1, p2, ... stands for 1 / (p1 * p2 * ...)
that were due.

    weights 8 and 2, b = 4, SHARPNESS 1: probabilities 1 and 1/2, an answer of both stands for one more missed

The estimate has no bias as long as weights do not depend on u. They do a little: a tuple that stays is a
match to others and adds to their weight. Where we differ: the paper's priority is w / u; the smaller exponent
keeps closer to the heaviest tuples, and EXPLORED of the sample is drawn without regard to weight, so that no
probability is so small that a single answer found would stand for a multitude.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.layout import KEPT

SHARPNESS = 0.5
EXPLORED = 0.0625

Floats = npt.NDArray[np.float32]


def priorities(weights: Floats, random: Floats, share: float) -> Floats:
    """What decides which tuples stay, where about a `share` of them does: the highest."""
    with np.errstate(divide="ignore"):
        drawn = weights / random**SHARPNESS
    return np.asarray(np.where(random < EXPLORED * share, np.inf, drawn), np.float32)


def inclusion_probabilities(weights: Floats, bound: float, share: float) -> Floats:
    """How likely each tuple was to stay, by the highest priority that went."""
    if bound <= 0:
        return np.ones(len(weights), np.float32)
    by_weight = np.minimum(1, weights / np.float32(bound)) ** np.float32(1 / SHARPNESS)
    return np.asarray(np.maximum(by_weight, EXPLORED * share), np.float32)


def with_probabilities(batch: pa.RecordBatch, now: Floats) -> pa.RecordBatch:
    """The tuples with their inclusion probabilities so far, in a column of its own."""
    kept = pa.array(np.minimum(probabilities_of(batch), now), pa.float32())
    if KEPT in batch.schema.names:
        return batch.set_column(batch.schema.get_field_index(KEPT), KEPT, kept)
    return batch.append_column(KEPT, kept)


def probabilities_of(batch: pa.RecordBatch) -> Floats:
    """The inclusion probability of each tuple so far."""
    if KEPT not in batch.schema.names:
        return np.ones(batch.num_rows, np.float32)
    return np.asarray(batch.column(KEPT))
