"""A fake of the model server's batch API on a real socket, with a choice of failures.

Its responses have the form of the real server's, which a journey test uses.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

SECRET_WORD = "a word of the model server's own"


class FakeBatchServer(ThreadingHTTPServer):
    """An HTTP server with batches in memory. An idempotency key is refused with another body.

    `batches` has the requests of each batch and how many are done. `failing` is the status of every response, if not 0.
    `cut` closes the connection instead of responding, after the request is carried out. `silent` never responds. `page`
    is the maximum page size, and `stuck` makes each page lead to itself.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.batches: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, tuple[str, dict[str, Any]]] = {}
        self.requests: list[str] = []
        self.failing = 0
        self.garbage = False
        self.cut = False
        self.silent = threading.Event()
        self.page = 100
        self.stuck = False
        self.batch_name = "batch"
        self.texts: dict[str, str] = {}
        self.broken: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def finish(self, count: int | None = None, *, status: str = "completed") -> None:
        """Mark this many requests of every batch as done, or all, which ends the batches."""
        for batch in self.batches.values():
            batch["done"] = len(batch["requests"]) if count is None else count
            batch["status"] = status if count is None else "processing"

    def end(self, status: str) -> None:
        """End all batches with the results that are done."""
        for batch in self.batches.values():
            batch["status"] = status


class _Handler(BaseHTTPRequestHandler):
    server: FakeBatchServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        if path == "/batch":
            self._respond(lambda: self._submit(json.loads(body)))
        else:
            self._respond(lambda: self._cancel(path.split("/")[2]))

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self._respond(lambda: self._results(parts.path.split("/")[2], parse_qs(parts.query)))

    def _respond(self, handle: Any) -> None:
        server = self.server
        server.requests.append(f"{self.command} {self.path}")
        if server.silent.is_set():
            self.rfile.read(1)  # returns when the client disconnects
            self.close_connection = True
            return
        body = {"error": {"message": SECRET_WORD}} if server.failing else handle()
        if server.cut:
            self.close_connection = True
            return
        status = server.failing or (404 if body is None else 200)
        response = b"<html>" if server.garbage else json.dumps(body or {}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(response)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(response)

    def _submit(self, body: dict[str, Any]) -> dict[str, Any] | None:
        key = self.headers["Idempotency-Key"]
        batch_id, first = self.server.keys.setdefault(key, (f"{self.server.batch_name}_{len(self.server.keys)}", body))
        if body != first:
            return None
        batch = {"requests": body["requests"], "done": 0, "status": "processing", "body": body}
        self.server.batches.setdefault(batch_id, batch | {"authorization": self.headers.get("Authorization", "")})
        return {"batch_id": batch_id, "status": "processing", "total_requests": len(body["requests"]), "created": 1}

    def _cancel(self, batch_id: str) -> dict[str, Any] | None:
        batch = self.server.batches.get(batch_id)
        if batch and batch["status"] == "processing":
            batch["status"] = "cancelled"
        return batch and {"batch_id": batch_id, "status": batch["status"]}

    def _results(self, batch_id: str, query: dict[str, list[str]]) -> dict[str, Any] | None:
        batch = self.server.batches.get(batch_id)
        if batch is None:
            return None
        after = int(query["after"][0])
        done = list(enumerate(batch["requests"]))[: batch["done"]]
        rest = [(index, request) for index, request in done if index > after]
        shown = rest[: min(self.server.page, int(query["limit"][0]))]
        is_last = batch["status"] != "processing" and len(shown) == len(rest)
        following = after if self.server.stuck else None if is_last else shown[-1][0] if shown else after
        results = [self._result(index, request) for index, request in shown]
        return {"batch_id": batch_id, "status": batch["status"], "results": results, "next": following}

    def _result(self, index: int, request: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = {"id": request["id"], "index": index, "processing_time_ms": 1}
        if request["id"] in self.server.broken:
            error = {"code": "INFERENCE_FAILED", "message": SECRET_WORD}
            return body | {"status": "failed", "choices": None, "error": error}
        text = self.server.texts.get(request["id"]) or stated_facts(request["messages"][-1]["content"])
        choice = {"index": 0, "text": text, "finish_reason": "stop"}
        return body | {"status": "completed", "choices": [choice], "error": None}

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def stated_facts(prompt: str) -> str:
    """Return a text with the name and the keywords of a prompt."""
    facts = dict(line.split(": ", 1) for line in prompt.splitlines() if ": " in line)
    return f"Text for {facts['Product name']}{' in ' * ('Keywords' in facts)}{facts.get('Keywords', '')}."


@contextmanager
def running_fake_server() -> Iterator[FakeBatchServer]:
    """Run a server for the duration of the `with` block."""
    batch_server = FakeBatchServer()
    thread = threading.Thread(target=batch_server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield batch_server
    batch_server.shutdown()
    thread.join(10)
    batch_server.server_close()
