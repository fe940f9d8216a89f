"""Request ids without the ASGI wrapper, as in Django's test client."""

import pytest
from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from shared.observability.request_id import (
    RequestIdMiddleware,
    bind_request_id,
    current_request_id,
    is_valid_request_id,
    new_request_id,
)


def sync_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(current_request_id())


async def async_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(current_request_id())


@pytest.fixture(params=["sync", "async"])
def answer(request: pytest.FixtureRequest):
    """Return the response of a synchronous or asynchronous view behind the middleware."""
    if request.param == "sync":
        return RequestIdMiddleware(sync_view)
    return async_to_sync(RequestIdMiddleware(async_view))


def test_the_view_and_the_client_see_the_same_id(answer):
    response = answer(RequestFactory().get("/"))
    assert is_valid_request_id(response.content.decode())
    assert response["X-Request-Id"] == response.content.decode()
    assert current_request_id() == ""


def test_a_valid_id_of_the_client_is_used(answer):
    assert answer(RequestFactory().get("/", headers={"X-Request-Id": "abc-1"})).content == b"abc-1"


def test_an_id_with_a_line_break_is_replaced(answer):
    response = answer(RequestFactory().get("/", headers={"X-Request-Id": "abc\nforged"}))
    assert "forged" not in response["X-Request-Id"]


def test_the_id_that_the_wrapper_has_bound_is_kept(answer):
    with bind_request_id("outer"):
        response = answer(RequestFactory().get("/", headers={"X-Request-Id": "inner"}))
    assert response["X-Request-Id"] == "outer"


def test_new_ids_are_valid_and_distinct():
    made = {new_request_id() for _ in range(1000)}
    assert len(made) == 1000
    assert all(is_valid_request_id(request_id) and request_id.startswith("req_") for request_id in made)
