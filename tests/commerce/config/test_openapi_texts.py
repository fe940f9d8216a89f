"""Every operation, parameter and field of the OpenAPI document is described for a client developer."""

import json
from typing import Any

import pytest
from django.test import Client
from openapi_spec_validator import OpenAPIV31SpecValidator

from shared.settings import VERSION
from tests.openapi_document import Document, FieldChecks, all_operations, text_problems

MONEY_FIELDS = {
    "amount", "averageOrderValue", "delivery_fee", "discount", "max_price", "min_price", "paid_total",
    "placedRevenue", "price", "refunded_total", "total_revenue",
    "sale_price", "sales_tax", "subtotal", "todaysRevenue", "total", "totalRefunds", "totalRevenue", "unit_price",
}  # fmt: skip
PRICE_BOUNDS = {"from", "price_from", "price_to", "to"}
DECIMAL_FIELDS = MONEY_FIELDS | PRICE_BOUNDS | {"actual_rating", "ratings", "returningCustomerRate", "x", "y"}

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def document(django_db_setup: None, django_db_blocker: Any) -> Any:
    with django_db_blocker.unblock():
        return json.loads(Client().get("/api/openapi.json").content)


def test_the_document_is_valid_openapi_3_1(document: Document):
    OpenAPIV31SpecValidator(document).validate()
    assert document["openapi"].startswith("3.1")


def test_the_document_introduces_the_api_and_has_the_version_of_the_product(document: Document):
    assert document["info"]["version"] == VERSION
    assert len(document["info"]["description"].split()) > 50


def test_every_operation_has_a_short_summary_and_a_description(document: Document):
    assert list(text_problems(all_operations(document))) == []


def test_every_parameter_has_a_description_a_type_bounds_and_an_example(document: Document):
    checks = FieldChecks(document, decimal_fields=DECIMAL_FIELDS)

    assert list(checks.parameter_problems(all_operations(document))) == []


def test_every_field_has_a_description_a_type_and_an_example_and_what_is_sent_has_bounds(document: Document):
    checks = FieldChecks(document, decimal_fields=DECIMAL_FIELDS)

    assert list(checks.body_problems(all_operations(document))) == []


def test_the_former_path_answers_the_same_document_and_names_its_successor(document: Document):
    former = Client().get("/api/schema")

    assert former.json() == document
    assert former.headers["Deprecation"] == "@1795478400"
    assert former.headers["Sunset"] == "Wed, 30 Jun 2027 00:00:00 GMT"
    assert former.headers["Link"] == '</api/openapi.json>; rel="successor-version"'
    assert "Deprecation" not in Client().get("/api/openapi.json").headers
