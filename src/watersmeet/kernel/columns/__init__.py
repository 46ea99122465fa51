"""Columns as the kernel needs them: hashed, indexed by hash, narrowed to the bytes their values take."""

from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column
from watersmeet.kernel.columns.narrow import narrowed, widened

__all__ = ["Hashes", "combine_hashes", "hash_column", "narrowed", "widened"]
