"""A server with OpenAI's uploads, files and batches, whose batches run when a test says so."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "member-secret-key"
Line = dict[str, Any]


@dataclass
class FakeMember:
    """Content of the server. statuses: of the next calls of "METHOD /path", instead of their answers.

    bodies: of all answers to "METHOD /path", after `statuses`. before_call: called with "METHOD /path" before each,
    on_body: with what it was sent.
    batches: by their Idempotency-Key, unless it ignores those.
    """

    model: str
    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, Line] = field(default_factory=dict)
    statuses: dict[str, list[int]] = field(default_factory=dict)
    bodies: dict[str, Any] = field(default_factory=dict)
    before_call: Callable[[str], object] = str
    on_body: Callable[[bytes], object] = len
    ignores_keys: bool = False
    calls: list[str] = field(default_factory=list)
    _parts: dict[str, bytes] = field(default_factory=dict)

    @property
    def batch(self) -> Line:
        """The only batch that there is."""
        [batch] = self.batches.values()
        return batch

    def input_lines(self) -> list[Line]:
        return [json.loads(line) for line in self.files[self.batch["input_file_id"]].splitlines()]

    def finish(self, answer: Callable[[Line], Line | None], status: str = "completed") -> None:
        """End the batch: each request gets the status code and body of `answer`, or no line."""
        lines = [line | {"response": found} for line in self.input_lines() if (found := answer(line)) is not None]
        for name, is_error in (("output_file_id", False), ("error_file_id", True)):
            chosen = [line for line in lines if (line["response"].get("status_code") != 200) == is_error]
            if chosen:
                self.add_file(name, b"".join(json.dumps(line).encode() + b"\n" for line in chosen))
        self.batch["status"] = status

    def add_file(self, name: str, content: bytes) -> None:
        """Give the batch a file as its `output_file_id` or `error_file_id`."""
        self.batch[name] = file_id = f"file-{len(self.files)}"
        self.files[file_id] = content

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, Any]:
        call = f"{method} {re.sub(r'-[0-9]+', '-N', path)}"
        self.calls.append(call)
        self.before_call(call)
        if body:
            self.on_body(body)
        if headers["Authorization"] != f"Bearer {KEY}":
            return 401, {"error": {"message": "Wrong key."}}
        if statuses := self.statuses.get(call):
            return statuses.pop(0), self.bodies.get(call, {"error": {"message": "This was asked for by the test."}})
        if call in self.bodies:
            return 200, self.bodies[call]
        if path == "/v1/models":
            return 200, {"data": [{"id": self.model}]}
        if path == "/v1/uploads":
            return 200, {"id": "upload-0"}
        if path == "/v1/uploads/upload-0/parts":
            part_id = f"part-{len(self._parts)}"
            message = BytesParser().parsebytes(b"Content-Type: " + headers["Content-Type"].encode() + b"\n\n" + body)
            [part] = message.get_payload()  # type: ignore[misc]
            self._parts[part_id] = part.get_payload(decode=True)  # type: ignore[union-attr, assignment]
            return 200, {"id": part_id}
        if path == "/v1/uploads/upload-0/complete":
            file_id = f"file-{len(self.files)}"
            self.files[file_id] = b"".join(self._parts.pop(part) for part in json.loads(body)["part_ids"])
            return 200, {"id": "upload-0", "file": {"id": file_id}}
        if path == "/v1/batches":
            created = json.loads(body) | {"id": f"batch-{len(self.batches)}", "status": "in_progress"}
            key = str(len(self.batches)) if self.ignores_keys else headers["Idempotency-Key"]
            return 200, self.batches.setdefault(key, created)
        if path.startswith("/v1/batches?"):
            return 200, {"data": list(self.batches.values())}
        if path.endswith("/cancel"):
            self.batch["status"] = "cancelled"
            return 200, self.batch
        if path.startswith("/v1/batches/"):
            return 200, self.batch
        file_id = path.split("/")[3]
        if method == "DELETE":
            return (200, {"id": file_id}) if self.files.pop(file_id, None) is not None else (404, {})
        return 200, self.files[file_id]


@contextmanager
def running_member(model: str) -> Iterator[FakeMember]:
    member = FakeMember(model)

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            status, content = member.answer(self.command, self.path, self.headers, body)
            sent = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        member.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield member
        finally:
            server.shutdown()
            thread.join()
