"""Cross-origin requests of browsers from the pages that STOA_CORS_ORIGINS names."""

import pytest
from django.test import Client
from pytest_django import Settings

PAGE = "https://page.example"
# What OpenAI's client sends from a browser.
OPENAI_HEADERS = {
    "authorization", "content-type", "idempotency-key", "x-stainless-arch", "x-stainless-helper-method",
    "x-stainless-lang", "x-stainless-os", "x-stainless-package-version", "x-stainless-retry-count",
    "x-stainless-runtime", "x-stainless-runtime-version", "x-stainless-timeout",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _named(settings: Settings) -> None:
    settings.CORS_ALLOWED_ORIGINS = [PAGE]


def preflight_headers(origin: str) -> dict[str, str]:
    """Return the response headers of a preflight request for a chat."""
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": ", ".join(sorted(OPENAI_HEADERS)),
    }
    answer = Client().options("/v1/chat/completions", headers=headers)
    return {name.lower(): value for name, value in answer.headers.items()}


def test_an_allowed_origin_may_send_the_headers_of_openais_client_and_of_the_api():
    told = preflight_headers(PAGE)

    assert told["access-control-allow-origin"] == PAGE
    allowed = {name.strip() for name in told["access-control-allow-headers"].split(",")}
    assert allowed >= OPENAI_HEADERS | {"api-version", "last-event-id", "x-api-key"}


def test_another_origin_may_send_nothing():
    assert "access-control-allow-origin" not in preflight_headers("https://evil.example")


def test_an_allowed_origin_may_read_the_headers_of_the_api():
    answer = Client().get("/v1/models", headers={"Origin": PAGE})

    shown = {name.strip() for name in answer.headers["Access-Control-Expose-Headers"].split(",")}
    assert {"API-Version", "Retry-After", "X-RateLimit-Remaining", "X-Request-Id", "X-Should-Retry"} <= shown
