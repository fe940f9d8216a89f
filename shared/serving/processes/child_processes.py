"""Child processes that never outlive their parent."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent() -> Callable[[], None]:
    """Return a `preexec_fn` for Popen after which the kernel kills the child when its parent thread ends.

    Start the child from the main thread. Linux only; elsewhere a parent that is killed with -9 leaves its children.
    """
    parent = os.getpid()

    def set_death_signal() -> None:
        if _libc:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # the parent ended before the call
                os._exit(1)

    return set_death_signal
