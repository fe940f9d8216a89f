"""Cross-origin requests from the origins of STOA_CORS_ORIGINS."""

import pytest
from django.test import Client
from pytest_django import Settings

pytestmark = pytest.mark.no_database

STOREFRONT = "https://storefront.example"


@pytest.fixture(autouse=True)
def _named(settings: Settings) -> None:
    settings.CORS_ALLOWED_ORIGINS = [STOREFRONT]


def asked(origin: str) -> dict[str, str]:
    """Return the headers of the response to the preflight request of an order with an idempotency key."""
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "api-version, authorization, content-type, idempotency-key",
    }
    answer = Client().options("/api/orders", headers=headers)
    assert answer.status_code == 200
    return {name.lower(): value for name, value in answer.headers.items()}


def test_an_allowed_origin_may_send_every_header_of_the_api():
    told = asked(STOREFRONT)

    assert told["access-control-allow-origin"] == STOREFRONT
    allowed = {name.strip() for name in told["access-control-allow-headers"].split(",")}
    assert {"api-version", "authorization", "content-type", "idempotency-key", "x-api-key"} <= allowed


def test_other_origins_are_refused():
    assert "access-control-allow-origin" not in asked("https://evil.example")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/types", 200),
        ("GET", "/api/nothing", 404),
        ("DELETE", "/nothing", 404),
        ("GET", "/api/me", 401),
        ("PATCH", "/api/types", 405),
        ("POST", "/api/token", 422),
    ],
)
def test_every_answer_to_an_allowed_origin_has_the_headers(method: str, path: str, status: int):
    for origin, allowed in ((STOREFRONT, STOREFRONT), ("https://evil.example", None)):
        answer = Client().generic(method, path, "{", content_type="application/json", headers={"Origin": origin})
        assert answer.status_code == status if method != "PATCH" else answer.status_code in (401, 405)
        assert answer.headers.get("Access-Control-Allow-Origin") == allowed


@pytest.mark.django_db
def test_an_allowed_origin_may_read_the_response_headers():
    answer = Client().get("/api/types", headers={"Origin": STOREFRONT})

    shown = {name.strip() for name in answer.headers["Access-Control-Expose-Headers"].split(",")}
    assert {"Idempotent-Replayed", "Link", "Retry-After", "X-RateLimit-Remaining", "X-Request-Id"} <= shown
