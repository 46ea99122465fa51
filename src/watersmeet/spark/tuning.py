"""The sizes by which the engine works: none of them changes an answer, all of them change what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.kernel import DEFAULT_TUNING
from watersmeet.kernel import Tuning as KernelTuning


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Travels to the workers with every plan; tests make their own to reach what large data would."""

    # A packing task sends what it has collected when it reaches this many rows, or this many bytes.
    chunk_rows: int = 1 << 20
    chunk_bytes: int = 64 << 20

    # A bucket's part of a batch that is larger than this is joined in pieces as it comes in.
    piece_bytes: int = 64 << 20

    # Answers leave the join in batches, and several batches go to Spark in one frame: every frame costs about
    # as much as thousands of answers. A frame of wide answers is handed over before it has so many.
    answer_rows: int = 1 << 16
    batches_per_frame: int = 16
    frame_bytes: int = 32 << 20

    # The same for a level of a shared dataflow, whose frames hold messages.
    messages_per_frame: int = 512
    message_frame_bytes: int = 16 << 20
    handed_on_at_once: int = 64  # messages that pass a level on their way to another

    # A state value of more than a few megabytes is slow to write and to read; small chunks share values.
    state_value_bytes: int = 2 << 20
    small_chunk_bytes: int = 256 << 10
    tokens_kept: int = 32

    # With so few buckets each of them reads all files itself: it pays while there are few.
    reading_buckets: int = 4

    # Wide columns of files come after the join where a task's files have this many bytes of them in a row on
    # the average, this many rows (fewer are not worth opening files again), and there are few buckets and few
    # files: each part of the rows names them all.
    late_bytes: int = 256
    late_rows: int = 10_000
    late_files: int = 1_000
    late_buckets: int = 4

    # Rows of a file decoded at once, or fewer where they are wide; and where only some rows are wanted.
    read_rows: int = 1 << 18
    read_bytes: int = 32 << 20
    chosen_rows: int = 1 << 14

    # A bucket of a semijoin plan keeps what it was given in so many batches, or bytes (as many as its
    # state has, if that is more), and then its state as a whole anew.
    replayed_batches: int = 32
    replayed_bytes: int = 1 << 20

    kernel: KernelTuning = DEFAULT_TUNING


DEFAULT = Tuning()
