"""The OpenAPI page tells what the routes do, and needs nothing from elsewhere."""

import re
from typing import Any

import httpx2
import jsonschema
import pytest

from tests.inference.running_server import RunningServer

OPERATIONS = {
    ("get", "/health"),
    ("get", "/models"),
    ("post", "/models/{model_id}/load"),
    ("post", "/models/{model_id}/unload"),
    ("post", "/inference"),
    ("post", "/inference/stream"),
    ("post", "/embeddings"),
    ("post", "/auth/login"),
    ("get", "/v1/models"),
    ("get", "/v1/models/{model_id}"),
    ("post", "/v1/chat/completions"),
    ("post", "/v1/completions"),
    ("post", "/v1/embeddings"),
    ("post", "/tokenize"),
    ("post", "/detokenize"),
    ("get", "/v1/files"),
    ("post", "/v1/files"),
    ("get", "/v1/files/{file_id}"),
    ("delete", "/v1/files/{file_id}"),
    ("get", "/v1/files/{file_id}/content"),
    ("get", "/v1/batches"),
    ("post", "/v1/batches"),
    ("get", "/v1/batches/{batch_id}"),
    ("post", "/v1/batches/{batch_id}/cancel"),
    ("get", "/batch"),
    ("post", "/batch"),
    ("get", "/batch/{batch_id}"),
    ("get", "/batch/{batch_id}/results"),
    ("post", "/batch/{batch_id}/cancel"),
    ("get", "/webhooks"),
    ("post", "/webhooks"),
    ("get", "/webhooks/{webhook_id}"),
    ("patch", "/webhooks/{webhook_id}"),
    ("delete", "/webhooks/{webhook_id}"),
    ("post", "/webhooks/{webhook_id}/rotate"),
    ("get", "/webhooks/{webhook_id}/deliveries"),
    ("get", "/webhooks/{webhook_id}/deliveries/{delivery_id}"),
    ("post", "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver"),
    ("get", "/usage"),
    ("get", "/metrics"),
    ("post", "/metrics/custom"),
    ("get", "/traces"),
}


@pytest.fixture(scope="module")
def schema(stoa: RunningServer) -> Any:
    answer = httpx2.get(f"{stoa.url}/schema", timeout=30)
    assert answer.status_code == 200
    return answer.json()


def test_every_route_is_in_the_schema(schema: dict[str, Any]):
    found = {(method, path) for path, methods in schema["paths"].items() for method in methods}

    assert found >= OPERATIONS
    assert schema["openapi"].startswith("3.1")


def test_every_reference_leads_somewhere(schema: dict[str, Any]):
    references = set(re.findall(r"'\$ref': '#/components/schemas/(\w+)'", str(schema)))

    assert references
    assert references <= schema["components"]["schemas"].keys()


def test_bounds_and_defaults_of_a_generation_are_told(schema: dict[str, Any]):
    fields = schema["components"]["schemas"]["InferenceRequest"]["properties"]

    assert fields["temperature"]["maximum"] == 2
    assert fields["max_tokens"]["default"] == 100
    assert schema["components"]["schemas"]["InferenceRequest"]["required"] == ["model", "prompt"]


def test_public_routes_need_no_credential_and_others_say_which(schema: dict[str, Any]):
    assert schema["paths"]["/health"]["get"]["security"] == [{}]
    assert schema["paths"]["/inference"]["post"]["security"] == [{"bearer": []}, {"apiKey": []}]


def test_limits_and_keys_are_told(schema: dict[str, Any]):
    asked = schema["paths"]["/usage"]["get"]
    assert {parameter["name"] for parameter in asked["parameters"]} == {"from", "to", "group_by", "user"}
    assert "429" in asked["responses"]
    assert "X-RateLimit-Remaining" in asked["responses"]["200"]["headers"]
    inference = schema["paths"]["/inference"]["post"]
    assert [(one["name"], one["in"]) for one in inference["parameters"]] == [("Idempotency-Key", "header")]
    assert "409" in inference["responses"]
    assert schema["paths"]["/inference/stream"]["post"]["parameters"] == []
    assert "429" not in schema["paths"]["/health"]["get"]["responses"]


def test_every_operation_of_ours_with_a_body_has_examples_and_what_it_answers_is_of_its_shape(schema: dict[str, Any]):
    for method, path in OPERATIONS:
        described = schema["paths"][path][method]
        if "requestBody" in described:
            content = described["requestBody"]["content"].get("application/json", {"examples": {}})
            for example in content["examples"].values():
                validate(example["value"], content["schema"], schema)
        answer = described["responses"]["200"]["content"].get("application/json", {})
        if "example" in answer:
            validate(answer["example"], answer["schema"], schema)


def validate(value: object, described: dict[str, Any], page: dict[str, Any]) -> None:
    """Raises unless the value fits, where the page's components are."""
    jsonschema.validate(value, described | {"components": page["components"]})


def test_the_page_loads_only_from_here(stoa: RunningServer):
    page = httpx2.get(f"{stoa.url}/docs", timeout=60)

    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert re.findall(r'(?:src|href)="(https?:)?//', page.text) == []


def test_the_probes_answer(stoa: RunningServer):
    assert httpx2.get(f"{stoa.url}/livez", timeout=60).status_code == 200
    assert httpx2.get(f"{stoa.url}/readyz", timeout=60).json()["status"] == "ready"
