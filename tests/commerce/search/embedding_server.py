"""A model server that embeds texts by the concepts that their words name, on a real socket, with faults on demand."""

import base64
import contextlib
import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

CONCEPTS = (
    ("warm", "hot", "kettle", "thermos", "flask", "coffee"),
    ("sleep", "bed", "pillow", "mattress", "night"),
    ("light", "lamp", "lantern", "dark", "candle"),
    ("dog", "puppy", "leash", "kennel"),
)


class EmbeddingServer:
    """`sizes` are the dimensions by model; a model that it lacks is 404. `texts` are those it was sent.

    With a `spread`, texts of the same concepts and other words differ by about that length.
    """

    def __init__(self) -> None:
        self.sizes = {"concepts": 16}
        self.texts: list[str] = []
        self.models: list[str] = []
        self.keys: list[str] = []
        self.delay_seconds = 0.0
        self.body: bytes | None = None  # instead of a right one
        self.form = "base64"
        self.spread = 0.0
        self.max_length: int | None = None  # of a text: a longer one makes the call a 400
        self.refused_word = ""  # likewise
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.keys.append(self.headers.get("Authorization", ""))
                time.sleep(server.delay_seconds)
                status, body = server.respond(request)
                with contextlib.suppress(ConnectionError):  # the client has given up
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._http = _QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)

    def stop_answering(self) -> None:
        self.sizes = {}

    def respond(self, request: dict[str, Any]) -> tuple[int, bytes]:
        self.models.append(request["model"])
        if self.body is not None:
            return 200, self.body
        size = self.sizes.get(request["model"])
        if size is None:
            return 404, b"{}"
        if any(self._refuses(text) for text in request["input"]):
            return 400, b"{}"
        self.texts += request["input"]
        vectors = [embed(text, size) + self.spread * _direction(text, size) for text in request["input"]]
        data = [{"index": number, "embedding": self._form(vector)} for number, vector in enumerate(vectors)]
        return 200, json.dumps({"data": data}).encode()

    def _refuses(self, text: str) -> bool:
        is_long = self.max_length is not None and len(text) > self.max_length
        return is_long or bool(self.refused_word and self.refused_word in text)

    def _form(self, vector: "np.ndarray[Any, np.dtype[np.float32]]") -> str | list[float]:
        return base64.b64encode(vector.tobytes()).decode() if self.form == "base64" else vector.tolist()


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the client has closed its connection."""


def embed(text: str, size: int) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """Return a vector whose first numbers count the words of each concept; the last is the same for all texts."""
    vector = np.zeros(size, "<f4")
    vector[-1] = 0.3
    for number, words in enumerate(CONCEPTS):
        vector[number] = sum(word in text.lower() for word in words)
    return vector


def _direction(text: str, size: int) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """Return a vector of length 1 that depends on the words alone."""
    words = " ".join(sorted(re.findall(r"\w+", text.lower())))
    seed = int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little")
    vector = np.random.default_rng(seed).normal(size=size).astype("<f4")
    return vector / np.linalg.norm(vector)
