"""Every operation, parameter and field of the OpenAPI document is described for a client developer."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import resolve
from openapi_spec_validator import OpenAPIV31SpecValidator

from shared.settings import VERSION

MAX_SUMMARY_WORDS = 8
# Apps whose texts are complete.
COVERED_APPS = {
    "commerce.addresses",
    "commerce.attributes",
    "commerce.catalog",
    "commerce.orders",
    "commerce.reviews",
    "commerce.shops",
    "shared.accounts",
}
MONEY_FIELDS = {
    "amount", "delivery_fee", "discount", "max_price", "min_price", "paid_total", "price", "refunded_total",
    "sale_price", "sales_tax", "subtotal", "total", "unit_price",
}  # fmt: skip
DECIMAL_FIELDS = MONEY_FIELDS | {"ratings"}

Problems = Iterator[str]

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def document(django_db_setup: None, django_db_blocker: Any) -> Any:
    with django_db_blocker.unblock():
        return json.loads(Client().get("/api/openapi.json").content)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if app_of(path) in COVERED_APPS:
                yield f"{method} {path}", operation


def app_of(path: str) -> str:
    """Return the app whose view serves a path of the document."""
    view: Any = resolve(re.sub(r"\{\w+\}", "1", path)).func
    return ".".join(view.cls.__module__.split(".")[:2])


class Fields:
    """A walk over the schemas of requests and responses that reports fields without texts, each component once."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._components = document["components"]["schemas"]
        self._seen: set[tuple[str, bool]] = set()

    def problems(self, schema: dict[str, Any], where: str, *, is_sent: bool) -> Problems:
        for part in (schema, *schema.get("allOf", ()), *schema.get("oneOf", ()), *schema.get("anyOf", ())):
            if "$ref" in part:
                yield from self._component(part["$ref"].rpartition("/")[2], is_sent=is_sent)
            for name, field in part.get("properties", {}).items():
                yield from field_problems(field, f"{where}.{name}", is_sent=is_sent)
                yield from self.problems(field, f"{where}.{name}", is_sent=is_sent)
            if "items" in part:
                yield from self.problems(part["items"], f"{where}[]", is_sent=is_sent)

    def _component(self, name: str, *, is_sent: bool) -> Problems:
        if (name, is_sent) not in self._seen:
            self._seen.add((name, is_sent))
            yield from self.problems(self._components[name], name, is_sent=is_sent)


def field_problems(field: dict[str, Any], where: str, *, is_sent: bool) -> Problems:
    types = types_of(field)
    if not field.get("description", "").strip().endswith("."):
        yield f"{where}: no description"
    if not types and not {"$ref", "allOf", "oneOf", "anyOf"} & field.keys():
        yield f"{where}: no type"
    is_plain = types and not types & {"object", "array"} and "enum" not in field
    if is_plain and not {"example", "examples"} & field.keys():
        yield f"{where}: no example"
    if is_sent:
        yield from bounds_problems(field, where, types)
    if "number" in types and where.rpartition(".")[2] not in DECIMAL_FIELDS:
        yield f"{where}: an integer with the type number, or a new decimal: name it in DECIMAL_FIELDS"


def bounds_problems(field: dict[str, Any], where: str, types: set[str]) -> Problems:
    if "integer" in types and not {"minimum", "maximum"} <= field.keys():
        yield f"{where}: no minimum and maximum"
    if "string" in types and not {"maxLength", "enum", "pattern", "format"} & field.keys():
        yield f"{where}: no maxLength, enum, pattern or format"
    if "array" in types and "maxItems" not in field:
        yield f"{where}: no maxItems"


def types_of(schema: dict[str, Any]) -> set[str]:
    types = schema.get("type", ())
    return {types} if isinstance(types, str) else set(types)


def test_the_document_is_valid_openapi_3_1(document: dict[str, Any]):
    OpenAPIV31SpecValidator(document).validate()
    assert document["openapi"].startswith("3.1")


def test_the_document_introduces_the_api_and_has_the_version_of_the_product(document: dict[str, Any]):
    assert document["info"]["version"] == VERSION
    assert len(document["info"]["description"].split()) > 50


def test_every_operation_has_a_short_summary_and_a_description(document: dict[str, Any]):
    problems = []
    for name, operation in operations(document):
        summary, description = operation.get("summary", ""), operation.get("description", "")
        if not 1 <= len(summary.split()) <= MAX_SUMMARY_WORDS:
            problems.append(f"{name}: the summary {summary!r} has not 1 to {MAX_SUMMARY_WORDS} words")
        if len(description.split()) < 6 or not description.endswith("."):
            problems.append(f"{name}: no description in full sentences")
    assert problems == []


def test_every_parameter_has_a_description_a_type_bounds_and_an_example(document: dict[str, Any]):
    problems = []
    for name, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            field = parameter["schema"] | {
                key: parameter[key] for key in ("description", "example") if key in parameter
            }
            problems += field_problems(field, f"{name} {parameter['name']}", is_sent=True)
    assert problems == []


def test_every_field_has_a_description_a_type_and_an_example_and_what_is_sent_has_bounds(document: dict[str, Any]):
    fields, problems = Fields(document), []
    for name, operation in operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            problems += fields.problems(content["schema"], f"{name} body", is_sent=True)
        for status, response in operation["responses"].items():
            for content in response.get("content", {}).values():
                problems += fields.problems(content["schema"], f"{name} {status}", is_sent=False)
    assert problems == []


def test_the_former_path_answers_the_same_document_and_names_its_successor(document: dict[str, Any]):
    former = Client().get("/api/schema")

    assert former.json() == document
    assert former.headers["Deprecation"] == "@1795478400"
    assert former.headers["Sunset"] == "Wed, 30 Jun 2027 00:00:00 GMT"
    assert former.headers["Link"] == '</api/openapi.json>; rel="successor-version"'
    assert "Deprecation" not in Client().get("/api/openapi.json").headers
