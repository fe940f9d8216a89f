"""Client of the process that decodes images (`worker`). It starts the process at its first job.

An image that crashes its decoder, or exceeds its time or memory, ends a child of that process and nothing else.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from commerce.attachments.images.limits import InvalidImage
from shared.fair_slots import FairSlots, SlotsFull

ROOT = Path(__file__).resolve().parents[3]
MAX_CONCURRENT_JOBS = 1 + max(2, os.cpu_count() or 1)  # of one user one less, so that others find a slot
MAX_WAITING_JOBS_PER_USER = 16
FURTHER_JOB_NICENESS = 10  # of a user's second job at once and those after it
QUEUE_TIMEOUT_SECONDS = 20.0
JOB_TIMEOUT_SECONDS = 60  # wall clock; the other limits are in `worker`
STOP_TIMEOUT_SECONDS = 5.0
MAX_REPLY_BYTES = 4096


class ImageWorkerUnavailable(Exception):
    """No image can be decoded now: too many jobs are queued, or the process could not be started."""


class ImageWorker:
    """The image process and its jobs. Safe for use by any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._job_slots = FairSlots(MAX_CONCURRENT_JOBS, max_waiting_per_user=MAX_WAITING_JOBS_PER_USER)
        self._jobs: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner_pid = 0

    def rewrite(self, source: IO[bytes], target: IO[bytes], content_type: str, *, user: str = "") -> tuple[int, int]:
        """Write the re-encoded image into `target` as `processing.rewrite` does, and return its width and height.

        `user` is whose turn it takes among the waiting jobs. Raises InvalidImage, ImageWorkerUnavailable, and OSError
        where the disk is full.
        """
        reply = self._run_job({"do": "rewrite", "content_type": content_type}, [source, target], user)
        return reply["width"], reply["height"]

    def make_sizes(
        self,
        source: IO[bytes],
        targets: Sequence[IO[bytes]],
        content_type: str,
        sizes: Sequence[tuple[int, int, str]],
        *,
        user: str = "",
    ) -> None:
        """Write a copy of each width, height and format into its target, as `processing.make_sizes` does.

        Raises as `rewrite` does.
        """
        self._run_job({"do": "sizes", "content_type": content_type, "sizes": list(sizes)}, [source, *targets], user)

    def stop(self) -> None:
        """Stop the process after its current jobs."""
        with self._lock:
            self._close()

    def _run_job(self, job: dict[str, Any], files: list[IO[bytes]], user: str) -> dict[str, Any]:
        try:
            with self._job_slots.acquire(user, timeout_s=QUEUE_TIMEOUT_SECONDS) as is_only_one:
                ours, theirs = socket.socketpair()
                with ours:
                    with theirs:
                        job |= {"nice": 0 if is_only_one else FURTHER_JOB_NICENESS}
                        self._send(json.dumps(job).encode(), [*(file.fileno() for file in files), theirs.fileno()])
                    return _read_reply(ours)
        except SlotsFull:
            raise ImageWorkerUnavailable from None

    def _send(self, job: bytes, files: list[int]) -> None:
        """Send one job at a time, so that messages do not mix. A process that died is restarted once."""
        with self._lock:
            for _ in range(2):
                try:
                    jobs = self._connect()
                    socket.send_fds(jobs, [job], files)
                    if jobs.recv(1):
                        return
                except OSError:
                    pass
                self._close()
        raise ImageWorkerUnavailable

    def _connect(self) -> socket.socket:
        if self._jobs is None or self._owner_pid != os.getpid():  # a fork needs a process of its own
            ours, theirs = socket.socketpair()
            with theirs:
                command = [sys.executable, "-m", "commerce.attachments.images.worker", str(theirs.fileno())]
                environment = {"PATH": os.defpath, "PYTHONPATH": str(ROOT)}
                self._process = subprocess.Popen(  # noqa: S603 - our own command line
                    command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                )
            self._jobs, self._owner_pid = ours, os.getpid()
            atexit.register(self.stop)
        return self._jobs

    def _close(self) -> None:
        if self._jobs is not None:
            self._jobs.close()
            self._jobs = None
        if self._process is not None and self._owner_pid == os.getpid():
            try:
                self._process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def _read_reply(connection: socket.socket) -> dict[str, Any]:
    connection.settimeout(JOB_TIMEOUT_SECONDS + 5)
    try:
        message = connection.recv(MAX_REPLY_BYTES)
    except TimeoutError:
        message = b""
    if not message:
        raise InvalidImage("cannot be decoded: it is damaged, or needs too much time or memory.")
    reply: dict[str, Any] = json.loads(message)
    if "errno" in reply:
        raise OSError(reply["errno"], os.strerror(reply["errno"]))
    if "refused" in reply:
        raise InvalidImage(reply["refused"])
    return reply


image_worker = ImageWorker()
