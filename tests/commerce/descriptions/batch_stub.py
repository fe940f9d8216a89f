"""A model server's batches on a real socket: in memory, as fast or as slow as a test says, with every way to fail that
a test asks for. Its answers have the form of Stoa's own; a journey uses the real one."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

SECRET_WORD = "a word of the model server's own"


class BatchStub(ThreadingHTTPServer):
    """`batches` by id: requests, and how many of them are done. `failing`: the status of every answer, if any; `cut`:
    drop the connection in place of an answer, after the deed is done; `silent`: hold it, and answer nothing. `page`:
    results a page at most; `stuck`: each page leads to itself. A key that comes again with another body is refused."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.batches: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, tuple[str, dict[str, Any]]] = {}
        self.asked: list[str] = []
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
        """So many requests of every batch are done; None: all, and the batches have ended."""
        for batch in self.batches.values():
            batch["done"] = len(batch["requests"]) if count is None else count
            batch["status"] = status if count is None else "processing"

    def end(self, status: str) -> None:
        """The batches end with what is done by now."""
        for batch in self.batches.values():
            batch["status"] = status


class _Handler(BaseHTTPRequestHandler):
    server: BatchStub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        if path == "/batch":
            self._answer(lambda: self._submit(json.loads(body)))
        else:
            self._answer(lambda: self._cancel(path.split("/")[2]))

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self._answer(lambda: self._results(parts.path.split("/")[2], parse_qs(parts.query)))

    def _answer(self, made: Any) -> None:
        server = self.server
        server.asked.append(f"{self.command} {self.path}")
        if server.silent.is_set():
            self.rfile.read(1)  # until the client has had enough
            self.close_connection = True
            return
        told = {"error": {"message": SECRET_WORD}} if server.failing else made()
        if server.cut:
            self.close_connection = True
            return
        status = server.failing or (404 if told is None else 200)
        answer = b"<html>" if server.garbage else json.dumps(told or {}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(answer)

    def _submit(self, body: dict[str, Any]) -> dict[str, Any] | None:
        key = self.headers["Idempotency-Key"]
        batch_id, first = self.server.keys.setdefault(key, (f"{self.server.batch_name}_{len(self.server.keys)}", body))
        if body != first:
            return None
        made = {"requests": body["requests"], "done": 0, "status": "processing", "body": body}
        self.server.batches.setdefault(batch_id, made | {"authorization": self.headers.get("Authorization", "")})
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
        told: dict[str, Any] = {"id": request["id"], "index": index, "processing_time_ms": 1}
        if request["id"] in self.server.broken:
            error = {"code": "INFERENCE_FAILED", "message": SECRET_WORD}
            return told | {"status": "failed", "choices": None, "error": error}
        text = self.server.texts.get(request["id"], f"Text {request['id']}.")
        choice = {"index": 0, "text": text, "finish_reason": "stop"}
        return told | {"status": "completed", "choices": [choice], "error": None}

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test's output is its own."""


@contextmanager
def running_stub() -> Iterator[BatchStub]:
    """One that answers; it is gone afterwards."""
    stub = BatchStub()
    thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield stub
    stub.shutdown()
    thread.join(10)
    stub.server_close()
