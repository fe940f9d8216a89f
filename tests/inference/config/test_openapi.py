"""The OpenAPI document describes every route for a client developer, and its page loads nothing from other servers."""

import re
from typing import Any

import httpx2
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from shared.settings import VERSION
from tests.inference.running_server import RunningServer
from tests.openapi_document import Document, FieldChecks, all_operations, schema_errors, text_problems

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
    ("post", "/v1/responses"),
    ("post", "/v1/responses/input_tokens"),
    ("post", "/v1/responses/compact"),
    ("get", "/v1/responses/{response_id}"),
    ("delete", "/v1/responses/{response_id}"),
    ("post", "/v1/responses/{response_id}/cancel"),
    ("get", "/v1/responses/{response_id}/input_items"),
    ("post", "/v1/conversations"),
    ("get", "/v1/conversations/{conversation_id}"),
    ("post", "/v1/conversations/{conversation_id}"),
    ("delete", "/v1/conversations/{conversation_id}"),
    ("get", "/v1/conversations/{conversation_id}/items"),
    ("post", "/v1/conversations/{conversation_id}/items"),
    ("get", "/v1/conversations/{conversation_id}/items/{item_id}"),
    ("delete", "/v1/conversations/{conversation_id}/items/{item_id}"),
    ("post", "/v1/embeddings"),
    ("post", "/rerank"),
    ("post", "/v1/rerank"),
    ("post", "/v2/rerank"),
    ("post", "/score"),
    ("post", "/v1/decisions"),
    ("post", "/v1/moderations"),
    ("post", "/tokenize"),
    ("post", "/detokenize"),
    ("post", "/v1/messages"),
    ("post", "/v1/messages/count_tokens"),
    ("post", "/api/chat"),
    ("post", "/api/generate"),
    ("post", "/api/embed"),
    ("post", "/api/show"),
    ("get", "/api/tags"),
    ("get", "/api/ps"),
    ("get", "/api/version"),
    ("post", "/mcp"),
    ("get", "/v1/files"),
    ("post", "/v1/files"),
    ("get", "/v1/files/{file_id}"),
    ("delete", "/v1/files/{file_id}"),
    ("get", "/v1/files/{file_id}/content"),
    ("post", "/v1/uploads"),
    ("get", "/v1/uploads/{upload_id}"),
    ("post", "/v1/uploads/{upload_id}/parts"),
    ("post", "/v1/uploads/{upload_id}/complete"),
    ("post", "/v1/uploads/{upload_id}/cancel"),
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


DECIMAL_FIELDS = {
    "completed_at", "confidence", "created_at", "embedding", "frequency_penalty", "keep_alive", "logprob",
    "min_p",
    "presence_penalty", "probability", "progress", "relevance_score", "repeat_penalty", "repetition_penalty",
    "score", "temperature",
    "timeout", "top_p", "value",
}  # fmt: skip


@pytest.fixture(scope="module")
def document(stoa: RunningServer) -> Any:
    answer = httpx2.get(f"{stoa.url}/openapi.json", timeout=30)
    assert answer.status_code == 200
    return answer.json()


def test_the_document_is_valid_openapi_3_1(document: Document):
    OpenAPIV31SpecValidator(document).validate()
    assert document["openapi"].startswith("3.1")


def test_the_document_introduces_the_api_and_has_the_version_of_the_product(document: Document):
    assert document["info"]["version"] == VERSION
    assert len(document["info"]["description"].split()) > 50


def test_the_document_has_no_control_characters(stoa: RunningServer):
    text = httpx2.get(f"{stoa.url}/openapi.json", timeout=30).text

    assert re.findall("[\x00-\x09\x0b-\x1f\x7f]", text) == []


def test_the_former_path_answers_the_same_document_and_names_its_successor(stoa: RunningServer, document: Document):
    former = httpx2.get(f"{stoa.url}/schema", timeout=30)

    assert former.json() == document
    assert former.headers["Deprecation"] == "@1795478400"
    assert former.headers["Sunset"] == "Wed, 30 Jun 2027 00:00:00 GMT"
    assert former.headers["Link"] == '</openapi.json>; rel="successor-version"'
    assert "Deprecation" not in httpx2.get(f"{stoa.url}/openapi.json", timeout=30).headers


def test_every_route_is_in_the_document(document: Document):
    assert {(method, path) for path, methods in document["paths"].items() for method in methods} >= OPERATIONS


def test_every_operation_has_a_short_summary_and_a_description(document: Document):
    assert list(text_problems(all_operations(document))) == []


def test_every_parameter_has_a_description_a_type_bounds_and_an_example(document: Document):
    checks = FieldChecks(document, decimal_fields=DECIMAL_FIELDS)

    assert list(checks.parameter_problems(all_operations(document))) == []


def test_every_field_has_a_description_a_type_and_an_example_and_what_is_sent_has_bounds(document: Document):
    checks = FieldChecks(document, decimal_fields=DECIMAL_FIELDS)

    assert list(checks.body_problems(all_operations(document))) == []


def test_a_generation_has_bounds_and_defaults(document: Document):
    fields = document["components"]["schemas"]["InferenceRequest"]["properties"]

    assert fields["temperature"]["maximum"] == 2
    assert fields["max_tokens"]["default"] == 100
    assert document["components"]["schemas"]["InferenceRequest"]["required"] == ["model", "prompt"]


def test_public_operations_need_no_credential_and_others_name_theirs(document: Document):
    assert document["paths"]["/health"]["get"]["security"] == [{}]
    assert document["paths"]["/inference"]["post"]["security"] == [{"bearer": []}, {"apiKey": []}]


def test_operations_document_limits_and_idempotency_keys(document: Document):
    usage = document["paths"]["/usage"]["get"]
    assert {parameter["name"] for parameter in usage["parameters"]} == {"from", "to", "group_by", "user"}
    assert "429" in usage["responses"]
    assert "X-RateLimit-Remaining" in usage["responses"]["200"]["headers"]
    inference = document["paths"]["/inference"]["post"]
    assert [(parameter["name"], parameter["in"]) for parameter in inference["parameters"]] == [
        ("Idempotency-Key", "header"),
        ("Last-Event-ID", "header"),
    ]
    assert "409" in inference["responses"]
    stream = document["paths"]["/inference/stream"]["post"]
    assert [parameter["name"] for parameter in stream["parameters"]] == ["Idempotency-Key", "Last-Event-ID"]
    embeddings = document["paths"]["/embeddings"]["post"]
    assert [parameter["name"] for parameter in embeddings["parameters"]] == ["Idempotency-Key"]
    assert "429" not in document["paths"]["/health"]["get"]["responses"]


def test_every_operation_with_a_body_has_examples_that_match_its_schemas(document: Document):
    errors = []
    for name, operation in all_operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            examples = [example["value"] for example in content.get("examples", {}).values()]
            assert examples or "json" not in str(operation["requestBody"]["content"].keys()), name
            errors += [
                f"{name}: {error}" for body in examples for error in schema_errors(document, content["schema"], body)
            ]
        for content in operation["responses"]["200"]["content"].values():
            if "example" in content:
                errors += [
                    f"{name}: {error}" for error in schema_errors(document, content["schema"], content["example"])
                ]
    assert errors == []


def test_the_documentation_page_loads_nothing_from_other_servers(stoa: RunningServer):
    page = httpx2.get(f"{stoa.url}/docs", timeout=60)

    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert re.findall(r'(?:src|href)="(https?:)?//', page.text) == []


def test_the_probes_are_served(stoa: RunningServer):
    assert httpx2.get(f"{stoa.url}/livez", timeout=60).status_code == 200
    assert httpx2.get(f"{stoa.url}/readyz", timeout=60).json()["status"] == "ready"
