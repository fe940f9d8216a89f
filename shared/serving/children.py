"""Child processes that never outlive their parent, however it ends."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def dies_with_parent() -> Callable[[], None]:
    """For `Popen(preexec_fn=...)`: the kernel kills the child when the thread that started it ends, so start it from
    the main thread. Only on Linux; elsewhere a parent that is killed with -9 leaves its children behind."""
    parent = os.getpid()

    def ask_the_kernel() -> None:
        if _libc:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it ended before we asked
                os._exit(1)

    return ask_the_kernel
