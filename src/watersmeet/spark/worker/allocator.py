"""The allocators of a Python worker that is short of memory: nothing is held for next time."""

from __future__ import annotations

import ctypes
import functools
import sys

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENAS = -1, -3, -8  # numbers of mallopt's parameters, from malloc.h
_LARGE_BYTES = 256 << 10


@functools.cache
def hold_nothing() -> None:
    """Arrow uses the system's allocator from now on, which hands back large blocks as they are freed."""
    pa.set_memory_pool(pa.system_memory_pool())
    if (library := _c_library()) is not None:
        for parameter, value in (
            (_TRIM_THRESHOLD, _LARGE_BYTES),
            (_MMAP_THRESHOLD, _LARGE_BYTES),
            (_ARENAS, 1),
        ):
            library.mallopt(parameter, value)


def hand_back() -> None:
    """Gives memory that is not used any more back to the operating system."""
    pa.default_memory_pool().release_unused()
    if (library := _c_library()) is not None:
        library.malloc_trim(0)


@functools.cache
def _c_library() -> ctypes.CDLL | None:
    """The GNU C library, if this process stands on it: others have no such calls, or ignore them."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None
