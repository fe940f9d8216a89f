"""Pictures, opened in a process of their own: the client of `picture_server`, which it starts when it is first needed.

A picture that crashes its decoder, or asks for more time or memory than any honest one, ends a child and nothing else.
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

from commerce.attachments.image_headers import BadImage

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = max(2, os.cpu_count() or 1)
WAIT_FOR_A_TURN_S = 20.0
WALL_S = 60  # for one picture; its child's limits are in `picture_server`
END_WITHIN_S = 5.0
LONGEST_ANSWER = 4096


class PicturesUnavailable(Exception):
    """No picture can be opened just now: too many are, or the machine has no room for another process."""


class PictureProcess:
    """Starts the server and gives it jobs; for any number of threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._jobs: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def rewrite(self, source: IO[bytes], target: IO[bytes], content_type: str) -> tuple[int, int]:
        """Writes the picture again as `pictures.rewrite` does; answers width and height. Raises BadImage,
        PicturesUnavailable, and OSError for a disk that is full."""
        told = self._do({"do": "rewrite", "content_type": content_type}, [source, target])
        return told["width"], told["height"]

    def make_sizes(
        self, source: IO[bytes], targets: Sequence[IO[bytes]], content_type: str, sizes: Sequence[tuple[int, int]]
    ) -> None:
        """Writes a WebP of each of these widths and heights into its target. Raises as `rewrite` does."""
        self._do({"do": "sizes", "content_type": content_type, "sizes": list(sizes)}, [source, *targets])

    def stop(self) -> None:
        """Ends the server, once what it does is done."""
        with self._lock:
            self._close()

    def _do(self, job: dict[str, Any], files: list[IO[bytes]]) -> dict[str, Any]:
        if not self._turns.acquire(timeout=WAIT_FOR_A_TURN_S):
            raise PicturesUnavailable
        try:
            ours, theirs = socket.socketpair()
            with ours:
                with theirs:
                    self._send(json.dumps(job).encode(), [*(file.fileno() for file in files), theirs.fileno()])
                return _answer(ours)
        finally:
            self._turns.release()

    def _send(self, job: bytes, files: list[int]) -> None:
        """One job at a time is on its way, so that none runs into the next; a server that has died is started anew."""
        with self._lock:
            for _ in range(2):
                try:
                    jobs = self._started()
                    socket.send_fds(jobs, [job], files)
                    if jobs.recv(1):
                        return
                except OSError:
                    pass
                self._close()
        raise PicturesUnavailable

    def _started(self) -> socket.socket:
        if self._jobs is None or self._owner != os.getpid():  # a fork has its own: the other's answers are not for it
            ours, theirs = socket.socketpair()
            with theirs:
                command = [sys.executable, "-m", "commerce.attachments.picture_server", str(theirs.fileno())]
                environment = {"PATH": os.defpath, "PYTHONPATH": str(ROOT)}
                self._server = subprocess.Popen(  # noqa: S603 - our own command line
                    command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                )
            self._jobs, self._owner = ours, os.getpid()
            atexit.register(self.stop)
        return self._jobs

    def _close(self) -> None:
        if self._jobs is not None:
            self._jobs.close()
            self._jobs = None
        if self._server is not None and self._owner == os.getpid():
            try:
                self._server.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            self._server = None


def _answer(ours: socket.socket) -> dict[str, Any]:
    ours.settimeout(WALL_S + 5)
    try:
        message = ours.recv(LONGEST_ANSWER)
    except TimeoutError:
        message = b""
    if not message:
        raise BadImage("cannot be opened: it is damaged, or asks for too much time or memory.")
    told: dict[str, Any] = json.loads(message)
    if told.get("error") == "disk_full":
        raise OSError(28, os.strerror(28))
    if "error" in told:
        raise BadImage("cannot be opened: it is damaged or asks for too much.")
    return told


picture_process = PictureProcess()
