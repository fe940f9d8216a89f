"""Client calls for OpenAI's batches on a running server."""

import json
import time
from typing import Any

import httpx2

from tests.inference.running_server import RunningServer

CHAT, COMPLETION, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "talker", "messages": [{"role": "user", "content": "speak"}], "max_tokens": 3},
    COMPLETION: {"model": "talker", "prompt": ["speak", "speak"], "max_tokens": 3, "n": 2},
    RESPONSES: {"model": "talker", "input": "speak", "instructions": "Be kind.", "max_output_tokens": 3},
    MESSAGES: {"model": "talker", "messages": [{"role": "user", "content": "speak"}], "max_tokens": 3},
    EMBEDDINGS: {"model": "embedder", "input": ["a", "b"], "encoding_format": "float"},
}
TIMEOUT_SECONDS = 90


def upload_file(stoa: RunningServer, content: bytes) -> str:
    answer = httpx2.post(
        f"{stoa.url}/v1/files",
        data={"purpose": "batch"},
        files={"file": ("lines.jsonl", content)},
        headers=stoa.headers(),
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def create_batch(stoa: RunningServer, endpoint: str, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    wanted = [
        {"custom_id": f"r{place}", "method": "POST", "url": endpoint, "body": BODIES[endpoint] | body}
        for place, body in enumerate(bodies)
    ]
    file_id = upload_file(stoa, b"\n".join(json.dumps(line).encode() for line in wanted))
    body = {"input_file_id": file_id, "endpoint": endpoint, "completion_window": "24h"}
    answer = httpx2.post(f"{stoa.url}/v1/batches", json=body, headers=stoa.headers(), timeout=60)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def wait_until_ended(stoa: RunningServer, batch_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (batch := stoa.get(f"/v1/batches/{batch_id}").json())["status"] in ("in_progress", "finalizing"):
        assert time.monotonic() < deadline, (batch, stoa.log.with_name("worker.log").read_text()[-4000:])
        time.sleep(0.1)
    return dict(batch)


def download_lines(stoa: RunningServer, file_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stoa.get(f"/v1/files/{file_id}/content").text.splitlines()]
