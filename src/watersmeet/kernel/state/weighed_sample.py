"""Which tuples to keep by worth, such that what is missed can be told from what is found.

After priority sampling (Duffield, Lund, Thorup: *Priority sampling for estimation of arbitrary subset sums*,
J. ACM 2007) and the estimator of Horvitz and Thompson. A tuple has a fixed random number u in [0, 1) and a
worth w. Its priority is w / u^SHARPNESS; the tuples of highest priority stay. With the highest priority that
went, b, a tuple of worth w had the chance min(1, w / b)^(1 / SHARPNESS) to stay, whatever became of it. It
is judged anew each time tuples are shed, always with the same u: so its chance to be still there is the least
of all these. An answer found of tuples with chances p1, p2, ... stands for 1 / (p1 * p2 * ...) that were due.

    worth 8 and 2, b = 4, SHARPNESS 1: chances 1 and 1/2, an answer of both tells of one more that is missed

The estimate has no bias as long as worth does not depend on u. It does a little: a tuple that stays is a
match to others and adds to their worth. Where we differ: the paper's priority is w / u; the smaller exponent
keeps closer to what is worth most, and EXPLORED of the sample is drawn without regard to worth, so that no
chance is so small that a single answer found would stand for a multitude.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.layout import KEPT

SHARPNESS = 0.5
EXPLORED = 0.0625

Floats = npt.NDArray[np.float32]


def priorities(worth: Floats, random: Floats, share: float) -> Floats:
    """What decides who stays, where about a `share` of the tuples does: the highest."""
    with np.errstate(divide="ignore"):
        drawn = worth / random**SHARPNESS
    return np.asarray(np.where(random < EXPLORED * share, np.inf, drawn), np.float32)


def chances(worth: Floats, bound: float, share: float) -> Floats:
    """Each tuple's chance to stay, by the highest priority that went."""
    if bound <= 0:
        return np.ones(len(worth), np.float32)
    by_worth = np.minimum(1, worth / np.float32(bound)) ** np.float32(1 / SHARPNESS)
    return np.asarray(np.maximum(by_worth, EXPLORED * share), np.float32)


def with_chances(batch: pa.RecordBatch, now: Floats) -> pa.RecordBatch:
    """The tuples with the chance they have had so far to be here, in a column of its own."""
    kept = pa.array(np.minimum(chances_of(batch), now), pa.float32())
    if KEPT in batch.schema.names:
        return batch.set_column(batch.schema.get_field_index(KEPT), KEPT, kept)
    return batch.append_column(KEPT, kept)


def chances_of(batch: pa.RecordBatch) -> Floats:
    """The chance each tuple has had so far."""
    if KEPT not in batch.schema.names:
        return np.ones(batch.num_rows, np.float32)
    return np.asarray(batch.column(KEPT))
