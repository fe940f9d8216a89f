"""Every operation of the OpenAPI document has a valid example and lists its errors."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from django.test import Client
from pytest_django import Settings

from commerce.config.openapi.examples import RECORDED
from shared.api.openapi import views
from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.commerce.routes.example_recording import record
from tests.commerce.routes.scenario import make_world

pytestmark = [pytest.mark.django_db, pytest.mark.no_database]


@pytest.fixture
def schema(db: None) -> Any:
    return json.loads(Client().get("/api/openapi.json").content)


def operations(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{method} {path}", found) for path, by in schema["paths"].items() for method, found in by.items()]


def examples(content: dict[str, Any]) -> list[Any]:
    if "example" in content:
        return [content["example"]]
    return [example["value"] for example in content.get("examples", {}).values()]


def test_every_operation_has_examples_of_request_and_response(schema: dict[str, Any]):
    without = []
    for name, operation in operations(schema):
        if "requestBody" in operation and not all(map(examples, operation["requestBody"]["content"].values())):
            without.append(f"{name}: body")
        for status, answer in operation["responses"].items():
            if status.startswith("2") and not all(map(examples, answer.get("content", {"": {}}).values())):
                without.append(f"{name}: {status}")
    assert without == []


def test_every_example_matches_its_schema(schema: dict[str, Any]):
    wrong = []
    for name, operation in operations(schema):
        told = [operation.get("requestBody", {}), *operation["responses"].values()]
        for kind, content in [pair for part in told for pair in part.get("content", {}).items()]:
            rules = {**content["schema"], "components": schema["components"]}
            if kind == "application/json":
                errors = [
                    e for value in examples(content) for e in jsonschema.Draft202012Validator(rules).iter_errors(value)
                ]
                wrong += [f"{name}: {error.json_path}: {error.message}" for error in errors]
    assert wrong == []


def form(value: Any) -> Any:
    """Return the structure of a value, without its content."""
    if isinstance(value, dict):
        return {key: form(inner) for key, inner in value.items()}
    return [form(inner) for inner in value[:1]] if isinstance(value, list) else type(value).__name__


def test_the_recorded_examples_have_the_current_form(
    schema: dict[str, Any], settings: Settings, provider_server: ProviderServer, tmp_path: Path
):
    """Record the examples again after a change: run this test with RECORD_EXAMPLES=1."""
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    settings.DESCRIPTIONS_API_KEY = "sk-test"
    settings.MEDIA_ROOT = tmp_path
    settings.LOGIN_LIMIT = settings.EMAIL_LIMIT = 100_000
    today = record(make_world(), schema)
    if os.environ.get("RECORD_EXAMPLES") == "1":
        RECORDED.write_text(json.dumps(today, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    recorded = json.loads(RECORDED.read_text())
    assert form(recorded) == form(today)


def test_possible_errors_are_documented(schema: dict[str, Any]):
    told = {name: set(operation["responses"]) for name, operation in operations(schema)}
    assert {"400", "401", "403", "409", "413", "415", "422", "429", "500", "503"} < told["post /api/orders"]
    assert "401" in told["post /api/token"]
    assert "401" not in told["post /api/forget-password"]
    assert "409" not in told["get /api/products"]
    assert "422" in told["get /api/products"]
    assert "200" in told["delete /api/addresses/{id}"]
    assert [name for name, statuses in told.items() if "204" in statuses] == []


def test_single_objects_take_the_relations_of_their_lists(schema: dict[str, Any]):
    read = schema["paths"]["/api/products/{key}"]["get"]
    names = {parameter["name"]: parameter for parameter in read["parameters"]}
    assert names.keys() == {"key", "with"}
    assert "variation_options" in names["with"]["description"]
    assert "422" in read["responses"], "of a value that is too long"


@pytest.mark.parametrize("query", ["lang=en-GB", "lang=xx-unknown", f"lang={'a' * 600}", "version=7"])
def test_n3_no_parameter_of_a_client_makes_a_further_document(schema: dict[str, Any], query: str):
    made = views._document.cache_info().misses
    assert json.loads(Client().get(f"/api/openapi.json?{query}").content) == schema
    assert views._document.cache_info().misses == made


def test_every_post_takes_an_idempotency_key_except_credentials_and_streams(schema: dict[str, Any]):
    takes = {
        name
        for name, operation in operations(schema)
        if any(parameter["name"] == "Idempotency-Key" for parameter in operation.get("parameters", ()))
    }
    posts = {name for name, _ in operations(schema) if name.startswith("post ")}
    assert posts - takes == {
        "post /api/token",
        "post /api/token/refresh",
        "post /api/register",
        "post /api/forget-password",
        "post /api/reset-password",
        "post /api/verify-email",
        "post /api/accept-invitation",
        "post /api/generate-descriptions",
        "post /api/descriptions/webhook",
        "post /api/webhooks",
        "post /api/webhooks/{webhook_id}/rotate",
    }
    assert takes < posts
