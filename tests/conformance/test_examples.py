"""The examples of the model server's OpenAPI document, sent unchanged."""

from typing import Any

import httpx2

from tests.running_stoa import RunningStoa

# These need other data, or change what other tests use.
EXCLUDED = (
    "/auth/login",
    "/models/{model_id}/load",
    "/models/{model_id}/unload",
    "/v1/batches",
    "/v1/conversations/{conversation_id}",
    "/v1/conversations/{conversation_id}/items",
    "/v1/uploads/{upload_id}/complete",
)


def test_every_example_of_the_openapi_document_succeeds(stoa: RunningStoa):
    document: dict[str, Any] = httpx2.get(f"{stoa.inference_url}/openapi.json", timeout=60).json()
    sent = 0
    with httpx2.Client(base_url=stoa.inference_url, headers=stoa.headers(), timeout=60) as client:
        for path, operations in document["paths"].items():
            body = operations.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
            for name, example in body.get("examples", {}).items():
                if path not in EXCLUDED:
                    response = client.post(path, json=example["value"])
                    assert response.is_success, (path, name, response.text)
                    sent += 1
    assert sent > 15
