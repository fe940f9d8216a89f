"""What a process does with memory that it no longer needs."""

import ctypes

LARGE_BYTES = 16 * 2**20
_M_MMAP_THRESHOLD = -3  # of malloc.h


def give_large_blocks_back() -> None:
    """Blocks from 16 MiB on go back to the system as soon as they are free. glibc raises that bound by itself to the
    size of what comes and goes, and then each thread that ever hashed a password keeps the 19 MiB of it. Elsewhere
    than with glibc nothing is done."""
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
