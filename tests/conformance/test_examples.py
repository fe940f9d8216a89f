"""The examples of the model server's OpenAPI page are sent as they stand there, and work."""

from typing import Any

import httpx2

from tests.running_stoa import RunningStoa

# These would need or change more.
ELSEWHERE = ("/auth/login", "/models/{model_id}/load", "/models/{model_id}/unload", "/v1/batches")


def test_every_example_is_answered(stoa: RunningStoa):
    page: dict[str, Any] = httpx2.get(f"{stoa.inference_url}/openapi.json", timeout=60).json()
    sent = 0
    with httpx2.Client(base_url=stoa.inference_url, headers=stoa.headers(), timeout=60) as client:
        for path, described in page["paths"].items():
            body = described.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
            for name, example in body.get("examples", {}).items():
                if path not in ELSEWHERE:
                    answer = client.post(path, json=example["value"])
                    assert answer.is_success, (path, name, answer.text)
                    sent += 1
    assert sent > 15
