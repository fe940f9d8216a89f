"""Runs a command until it ends or this program's stdin is closed, and then ends every process that the command started.

It is run as a file, `python -I -S supervisor.py COMMAND...`, and imports nothing of Stoa. Whoever starts it holds the
other end of its stdin: a process that is killed closes it, and the command is killed at once. If TERMINATE was written
before, the command gets two seconds to end by itself. The exit status is the command's.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TERMINATE = b"."
TERMINATE_SECONDS = 2.0


def main() -> int:
    """Run the command. Its children become this program's when their parent ends, so that all are found."""
    os.setsid()  # a signal to the group of whoever started this would end it before the command's children
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    server = subprocess.Popen(  # noqa: S603
        sys.argv[1:],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0),
    )
    threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
    status = server.wait()
    _kill_group(server.pid)
    return status if status >= 0 else 128 - status


def _end_with_stdin(server: subprocess.Popen[bytes]) -> None:
    is_orderly = False
    while data := os.read(0, 1):
        is_orderly = data == TERMINATE
    deadline = time.monotonic() + (TERMINATE_SECONDS if is_orderly else 0)
    if is_orderly:
        server.terminate()
    while server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    server.kill()  # `main` waits for it, and then kills what it started


def _kill_group(leader: int) -> None:
    """Kill a server's process group, and its processes that have left it, until none is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    while children := descendants(os.getpid()):
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def descendants(pid: int) -> list[int]:
    """Return the processes that this one has started, and those that they have started."""
    children: list[int] = []
    with contextlib.suppress(OSError):  # the process or one of its threads has ended meanwhile
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                children += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return children + [below for child in children for below in descendants(child)]


if __name__ == "__main__":
    sys.exit(main())
