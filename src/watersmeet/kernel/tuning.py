"""The numbers that decide when the kernel cuts, merges, samples or reviews something.

None of them changes an answer. The defaults suit the sizes that a bucket meets in earnest; tests pass smaller
ones, so that a handful of tuples reaches the code that large inputs need.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """All thresholds of the kernel."""

    # Chunks
    narrow_rows: int = 4096  # a smaller chunk is not narrowed: there is little to save
    merge_rows: int = 1 << 16  # chunks up to this size are merged with their neighbours
    merge_bytes: int = 16 << 20  # and up to this one: merging copies them, and they are there twice meanwhile
    cut_share: float = 1 / 8  # a new chunk of which a smaller share has expired stays whole
    cut_result_rows: int = 64  # a smaller chunk of results is not worth cutting

    # Slices and their indexes
    max_slices_per_append: int = 32  # a batch that spans more windows gets wider slices
    min_rows_per_slice: int = 4096  # under windows that count rows
    max_rows_per_slice: int = 1 << 31  # row numbers within a slice fit half a word
    least_ended: int = 1024  # tuples that later ones of their value have ended are kept up to so many
    trim_rows: int = 256  # a smaller slice is not trimmed
    trims_per_window: int = 4  # how often it is checked how much of a slice has expired
    trim_live_share: float = 3 / 4  # a slice of which a larger share is live stays as it is
    short_link_bits: int = 24  # an index of more entries than these bits can number takes longer links

    # What is joined at once
    cell_windows: int = 16  # a batch is joined in cells of time of at most this many of the shortest window
    cell_rows: int = 4096  # but not in cells smaller than this
    # Combinations are made, and answers leave, in blocks: those under way take at most so many bytes, and so
    # does a table of answers, or it is one answer. Whatever is met by however many, no join holds more.
    block_bytes: int = 64 << 20

    # Probing orders
    review_indexes_every: int = 64  # steps
    sample_every: int = 8  # steps between two samplings of a head
    sample_probers: int = 128
    values_kept: int = 16  # heavy values followed, of one head and class
    least_sampled: float = 8.0  # tuples of a value before its rates are believed
    least_gain: float = 0.05  # the share of a head's probes that an order of a value's own must save

    # Survival of tuples under a limit
    bins_per_window: int = 64
    max_bins: int = 512  # a watermark that stands still must not let a ledger grow for ever

    # Shared dataflows
    held_results: int = 1 << 18  # results found before they leave
    max_pairs: int = 1 << 20  # of results and query tails, tested together
    pair_bytes: int = 64  # of memory for such a pair

    @property
    def pairs_at_once(self) -> int:
        """Pairs of results and query tails, within the bytes of a block."""
        return max(1, min(self.max_pairs, self.block_bytes // self.pair_bytes))


DEFAULT_TUNING = Tuning()
