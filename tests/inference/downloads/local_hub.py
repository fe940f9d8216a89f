"""A local Hugging Face Hub. Large files redirect to a storage server, which supports ranges and drops connections."""

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 100_000  # bytes from which a file is in storage


@dataclass
class Hub:
    """Content and behavior of the hub, with the requests that it received.

    cut_after: bytes after which storage closes each of its next responses. lie: files whose content differs from their
    hash. listings: responses that replace the list of a repository.
    """

    url: str = ""
    storage_url: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    listings: dict[str, bytes] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    lie: set[str] = field(default_factory=set)
    cut_after: list[int] = field(default_factory=list)
    hang_after: int | None = None
    knows_ranges: bool = True
    hanging: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path and Range of requests to storage
    credentials_at_storage: list[str] = field(default_factory=list)
    asked_of_hub: list[tuple[str, str]] = field(default_factory=list)  # path and credential

    def listing(self, repo_id: str) -> dict[str, Any]:
        return {
            "id": repo_id,
            "sha": COMMIT,
            "siblings": [self._sibling(path, content) for path, content in self.repositories[repo_id].items()],
        }

    def _sibling(self, path: str, content: bytes) -> dict[str, Any]:
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        sibling: dict[str, Any] = {"rfilename": path, "size": len(content), "blobId": blob}
        if len(content) >= LARGE:
            sibling["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return sibling

    def content(self, repo_id: str, path: str) -> bytes:
        content = self.repositories[repo_id][path]
        return content[::-1] if path in self.lie else content


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)


class _HubHandler(_Handler):
    def do_GET(self) -> None:
        self.hub.asked_of_hub.append((self.path.partition("?")[0], self.headers.get("Authorization", "")))
        path = self.path.partition("?")[0]
        if listed := re.fullmatch(r"/api/models/(.+?)(/revision/.+)?", path):
            self._list(listed[1], listed[2])
        elif found := re.fullmatch(rf"/(.+)/resolve/{COMMIT}/(.+)", path):
            self._file(found[1], found[2])
        else:
            self.answer(404, b"{}")

    def _list(self, repo_id: str, revision: str | None) -> None:
        if repo_id in self.hub.private and not self.headers.get("Authorization"):
            self.answer(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif repo_id in self.hub.listings:
            self.answer(200, self.hub.listings[repo_id], {"Content-Type": "application/json"})
        elif repo_id not in self.hub.repositories:
            self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif revision not in (None, "/revision/main", f"/revision/{COMMIT}"):
            self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        else:
            self.answer(200, json.dumps(self.hub.listing(repo_id)).encode(), {"Content-Type": "application/json"})

    def _file(self, repo_id: str, path: str) -> None:
        content = self.hub.content(repo_id, path)
        if len(content) >= LARGE:
            self.answer(302, b"", {"Location": f"{self.hub.storage_url}/{repo_id}/{path}?signed=yes"})
        else:
            self.answer(200, content, {"ETag": '"x"', "X-Repo-Commit": COMMIT})


class _StorageHandler(_Handler):
    def do_GET(self) -> None:
        hub, path = self.hub, self.path.partition("?")[0]
        hub.asked.append((path, self.headers.get("Range")))
        hub.credentials_at_storage.append(self.headers.get("Authorization", ""))
        repo_id = next(repo_id for repo_id in hub.repositories if path.startswith(f"/{repo_id}/"))
        content = hub.content(repo_id, path.removeprefix(f"/{repo_id}/"))
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and hub.knows_ranges else 0
        if start >= len(content):
            self.answer(416, b"")
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("ETag", '"y"')
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if hub.hang_after is not None:
            self.wfile.write(content[start : start + hub.hang_after])
            self.wfile.flush()
            hub.hanging.wait(60)
            self.close_connection = True
            return
        cut = hub.cut_after.pop(0) if hub.cut_after else None
        with contextlib.suppress(ConnectionError):
            self.wfile.write(content[start:] if cut is None else content[start : start + cut])
        self.close_connection = self.close_connection or cut is not None


@contextlib.contextmanager
def local_hub() -> Iterator[Hub]:
    """A running hub with a storage server."""
    hub = Hub()
    servers = []
    for kind in (_HubHandler, _StorageHandler):
        handler = type(kind.__name__, (kind,), {"hub": hub})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
    hub.url, hub.storage_url = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    try:
        yield hub
    finally:
        hub.hanging.set()
        for server in servers:
            server.shutdown()
            server.server_close()
