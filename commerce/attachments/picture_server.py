"""The process that pictures are opened in: `python -m commerce.attachments.picture_server FD`.

It has Pillow imported and forks a child for each job, which has limits and then one picture, and ends. Django is not
imported here, and neither are our keys. Its client is `picture_process`; when that goes, the socket `FD` ends, and so
does this.
"""

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import sys
from typing import Any

from PIL import AvifImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin  # noqa: F401

from commerce.attachments import pictures
from commerce.attachments.picture_process import WALL_S

LONGEST_JOB = 4096
MOST_FILES = 16

CPU_S = 20
MEMORY_BYTES = 2 * 1024**3
LARGEST_FILE = 128 * 1024**2

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


def main() -> None:
    jobs = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for: who sent the job reads the end of it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one whose end we follow
    parent = os.getpid()
    while True:
        message, files, _, _ = socket.recv_fds(jobs, LONGEST_JOB, MOST_FILES)
        if not message:
            return
        if os.fork() == 0:
            jobs.close()
            _limit_self(parent)
            _do(json.loads(message), files)
            os._exit(0)
        for file in files:
            os.close(file)
        jobs.sendall(b"+")


def _limit_self(parent: int) -> None:
    """The kernel ends the child that uses more; what it opens after this is little."""
    limits = {
        resource.RLIMIT_CPU: CPU_S,
        resource.RLIMIT_AS: MEMORY_BYTES,
        resource.RLIMIT_FSIZE: LARGEST_FILE,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 64,
    }
    for name, most in limits.items():
        resource.setrlimit(name, (most, most))
    signal.alarm(WALL_S)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _do(job: dict[str, Any], files: list[int]) -> None:
    """The last file takes the answer, the first is the picture, those between take what is made of it."""
    source, *targets, answer = files
    try:
        told = _JOBS[job["do"]](job, source, targets)
    except Exception as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        told = {"error": "disk_full" if full else "refused", "reason": type(error).__name__}
    os.write(answer, json.dumps(told).encode())


def _rewrite(job: dict[str, Any], source: int, targets: list[int]) -> dict[str, Any]:
    with os.fdopen(source, "rb") as picture:
        picture.seek(0)
        written, width, height = pictures.rewrite(picture, job["content_type"])
    _write(targets[0], written)
    return {"width": width, "height": height}


def _make_sizes(job: dict[str, Any], source: int, targets: list[int]) -> dict[str, Any]:
    with os.fdopen(source, "rb") as picture:
        picture.seek(0)
        made = pictures.make_sizes(picture, job["content_type"], [(width, height) for width, height in job["sizes"]])
    for target, written in zip(targets, made, strict=True):
        _write(target, written)
    return {}


_JOBS = {"rewrite": _rewrite, "sizes": _make_sizes}


def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


if __name__ == "__main__":
    main()
