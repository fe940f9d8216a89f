"""Process that decodes images: `python -m commerce.attachments.images.worker FD`.

It imports Pillow once and forks a child for each job. A child has resource limits, processes one image and exits.
Neither Django nor any secret is loaded here. `worker_client` starts this process, which exits when the socket `FD`
closes.
"""

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import sys
import warnings
from typing import Any

from PIL import AvifImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin  # noqa: F401

from commerce.attachments.images import processing
from commerce.attachments.images.limits import InvalidImage
from commerce.attachments.images.worker_client import JOB_TIMEOUT_SECONDS

MAX_JOB_BYTES = 4096
MAX_JOB_FILES = 16

MAX_CPU_SECONDS = 20
MAX_MEMORY_BYTES = 2 * 1024**3
MAX_OUTPUT_BYTES = 128 * 1024**2

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


def main() -> None:
    """Fork a child for each job that arrives on the socket, until it closes."""
    jobs = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for children: the client reads the end of its socket
    warnings.simplefilter("ignore", UserWarning)  # of Pillow, about what is wrong with an image
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the client, and its end closes the socket
    parent = os.getpid()
    while True:
        message, files, _, _ = socket.recv_fds(jobs, MAX_JOB_BYTES, MAX_JOB_FILES)
        if not message:
            return
        if os.fork() == 0:
            jobs.close()
            _limit_resources(parent)
            _run_job(json.loads(message), files)
            os._exit(0)
        for file in files:
            os.close(file)
        jobs.sendall(b"+")


def _limit_resources(parent: int) -> None:
    """Set the limits of a child. The kernel kills it when it exceeds one."""
    limits = {
        resource.RLIMIT_CPU: MAX_CPU_SECONDS,
        resource.RLIMIT_AS: MAX_MEMORY_BYTES,
        resource.RLIMIT_FSIZE: MAX_OUTPUT_BYTES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 64,
    }
    for name, limit in limits.items():
        resource.setrlimit(name, (limit, limit))
    signal.alarm(JOB_TIMEOUT_SECONDS)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _run_job(job: dict[str, Any], files: list[int]) -> None:
    """Run a job. Its files are the source image, the targets of the output, and the socket for the reply."""
    source, *targets, reply_socket = files
    os.nice(job["nice"])
    try:
        reply = _JOBS[job["do"]](job, source, targets)
    except InvalidImage as error:
        reply = {"refused": str(error)}
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            reply = {"errno": error.errno}
        else:
            reply = {"refused": "cannot be decoded: it is damaged or too large."}
    os.write(reply_socket, json.dumps(reply).encode())


def _rewrite(job: dict[str, Any], source: int, targets: list[int]) -> dict[str, Any]:
    with os.fdopen(source, "rb") as image:
        image.seek(0)
        content, width, height = processing.rewrite(image, job["content_type"])
    _write(targets[0], content)
    return {"width": width, "height": height}


def _make_sizes(job: dict[str, Any], source: int, targets: list[int]) -> dict[str, Any]:
    with os.fdopen(source, "rb") as image:
        image.seek(0)
        copies = processing.make_sizes(image, job["content_type"], [tuple(size) for size in job["sizes"]])
    for target, content in zip(targets, copies, strict=True):
        _write(target, content)
    return {}


_JOBS = {"rewrite": _rewrite, "sizes": _make_sizes}


def _write(target: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(target, view) :]


if __name__ == "__main__":
    main()
