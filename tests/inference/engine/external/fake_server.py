"""A server with the documented routes of vLLM, llama.cpp and SGLang. It answers with the prompt's tokens, one by one.

Run as a file: KIND and the engine's own arguments. The file `behaviour` in the engine's folder names a fault, or is
`says` or `cut` and the token ids of an answer, which then ends by itself, or by a limit of the engine.
"""

import json
import os
import socket
import socketserver
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

KIND, ARGUMENTS = sys.argv[1], sys.argv[2:]
FOLDER = Path.cwd()  # a model process starts the server in the engine's folder
TOKEN_SECONDS = 0.003
LEAKED_BYTES = 2**29
LEAKED: list[bytes] = []


def argument(name: str) -> str:
    return ARGUMENTS[ARGUMENTS.index(name) + 1]


def key() -> str:
    if KIND == "sglang":
        return Path(argument("--config")).read_text().partition("api-key: ")[2].strip()
    return os.environ[{"vllm": "VLLM_API_KEY", "llama.cpp": "LLAMA_API_KEY"}[KIND]]


def behaviour() -> str:
    file = FOLDER / "behaviour"
    return file.read_text() if file.exists() else ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if behaviour() == "leaks" and not LEAKED:
            LEAKED.append(b"x" * LEAKED_BYTES)
        self._answer(503 if behaviour() in ("never ready", "unhealthy") else 200, b"{}")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with (FOLDER / "requests.jsonl").open("a") as log:
            log.write(json.dumps({"path": self.path, "body": body}) + "\n")
        if self.headers["Authorization"] != f"Bearer {key()}":
            return self._answer(401, b'{"error": "Unauthorized"}')
        if behaviour() == "refuses":
            return self._answer(400, b'{"error": {"message": "no such thing"}}')
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for event in self._events(body):
                data = event if isinstance(event, bytes) else json.dumps(event).encode()
                self.wfile.write(b"data: " + data + b"\n\n")
                self.wfile.flush()
                time.sleep(TOKEN_SECONDS)
        except (BrokenPipeError, ConnectionResetError):  # the client has left
            with (FOLDER / "hang-ups").open("a") as log:
                log.write("x")

    def _events(self, body: dict[str, Any]) -> Any:
        ids = body.get("input_ids") or body["prompt"]
        self.sent: list[int] = []
        limits = [body.get("max_tokens"), body.get("n_predict"), body.get("sampling_params", {}).get("max_new_tokens")]
        limit = next(value for value in limits if value is not None)
        if behaviour() == "reports an error":
            yield {"error": {"message": "the prompt QXZ is too odd"}}
        if behaviour() == "garbage":
            yield b"{not json"
        if behaviour() == "breaks off":
            return
        if behaviour() in ("huge token", "negative token"):
            yield self._event(2**40 if behaviour() == "huge token" else -5, body)
        if behaviour() == "no numbers":
            logprobs = {"token_logprobs": [None], "top_logprobs": [{"token_id:5": None}]}
            yield {"choices": [{"index": 0, "token_ids": [ids[0]], "logprobs": logprobs}], "usage": None}
        if behaviour() == "aborts":
            yield self._event(ids[0], body)
            yield from self._end("abort", len(ids))
            return
        tokens = self._answer_ids(ids)[:limit]
        if behaviour() == "joins characters":  # the first and the last token are a character, those between are one
            first, last = self._event(tokens[0], body), self._event(tokens[-1], body)
            yield from [first, self._event(tokens[-2], body) | {"content": "\N{WRAPPED PRESENT}"}, last]
            tokens = []
        for token in tokens:
            yield self._event(token, body)
        ended = "length" if len(tokens) == limit or behaviour().startswith("cut [") else "stop"
        yield from self._end(ended, len(ids))

    def _answer_ids(self, prompt: list[int]) -> list[int]:
        said = behaviour().partition(" [")[2]
        if said:
            return list(json.loads(f"[{said}"))
        return prompt * 1000 if behaviour() == "talks" else prompt

    def _event(self, token: int, body: dict[str, Any]) -> dict[str, Any]:
        if KIND == "llama.cpp":
            event: dict[str, Any] = {"content": "x", "tokens": [token], "stop": False}
            if body["n_probs"]:
                top = [{"id": token, "logprob": -0.5}, {"id": 5, "logprob": -1.5}]
                event["completion_probabilities"] = [{"id": token, "logprob": -0.5, "top_logprobs": top}]
            return event
        if KIND == "vllm":
            choice: dict[str, Any] = {"index": 0, "text": "x", "token_ids": [token], "finish_reason": None}
            if body["logprobs"] is not None:
                top = {f"token_id:{token}": -0.5, "token_id:5": -1.5}
                choice["logprobs"] = {"token_logprobs": [-0.5], "top_logprobs": [top]}
            return {"choices": [choice], "usage": None}
        meta: dict[str, Any] = {"finish_reason": None, "cached_tokens": 2}
        if body["return_logprob"]:
            meta |= {
                "output_token_logprobs": [[-0.5, token, None]],
                "output_top_logprobs": [[[-0.5, token, None], [-1.5, 5, None]]],
            }
        self.sent.append(token)  # all so far, as by default
        return {"text": "x", "output_ids": self.sent, "meta_info": meta | {"completion_tokens": len(self.sent)}}

    def _end(self, reason: str, prompt_tokens: int) -> list[Any]:
        if KIND == "llama.cpp":
            kind = "limit" if reason == "length" else "eos"
            return [{"content": "", "tokens": [], "stop": True, "stop_type": kind, "timings": {"cache_n": 2}}]
        if KIND == "vllm":
            usage = {"prompt_tokens": prompt_tokens, "prompt_tokens_details": {"cached_tokens": 2}}
            last = {"index": 0, "text": "", "token_ids": [], "finish_reason": reason}
            return [{"choices": [last], "usage": usage}, b"[DONE]"]
        meta = {"finish_reason": {"type": reason}, "cached_tokens": 2, "completion_tokens": len(self.sent)}
        return [{"text": "", "output_ids": self.sent, "meta_info": meta}, b"[DONE]"]

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "-"

    def log_message(self, *parts: Any) -> None:
        pass


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True


class UnixServer(Server):
    address_family = socket.AF_UNIX

    def get_request(self) -> Any:
        request, _ = super().get_request()
        return request, ("local", 0)


def main() -> None:
    (FOLDER / "started.json").write_text(json.dumps({"arguments": ARGUMENTS, "environment": dict(os.environ)}))
    print(f"ServerArgs(api_key={key()!r})", file=sys.stderr, flush=True)  # as SGLang does
    if behaviour() == "exits":
        print("there is no such model", file=sys.stderr)
        sys.exit(3)
    # As vLLM has one: a process of its own, which outlives a parent that is killed.
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    if KIND == "sglang":
        server: Server = Server(("127.0.0.1", int(argument("--port"))), Handler)
    else:
        server = UnixServer(argument("--uds" if KIND == "vllm" else "--host"), Handler)  # type: ignore[arg-type]
    server.serve_forever()


if __name__ == "__main__":
    main()
