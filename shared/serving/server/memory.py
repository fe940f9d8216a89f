"""Memory allocator settings of a server process."""

import ctypes

MMAP_THRESHOLD_BYTES = 16 * 2**20
_M_MMAP_THRESHOLD = -3  # of malloc.h


def return_large_blocks() -> None:
    """Make glibc return blocks of 16 MiB and more to the system as soon as they are freed.

    By default glibc raises this threshold to the size of freed blocks, so each thread that ever hashed a password keeps
    its 19 MiB. Without glibc this does nothing.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
