"""Rate limits of single routes."""

from typing import Any

import pytest
from django.http import HttpResponse
from pytest_django import Settings
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory, force_authenticate
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.api.limits.throttling import RateLimitThrottle

pytestmark = pytest.mark.no_database


class NotesView(APIView):
    permission_classes = [AllowAny]
    throttle_classes = [RateLimitThrottle.of("notes", "NOTES_LIMIT")]

    def get(self, request: Request) -> Response:
        return Response([])

    def post(self, request: Request) -> Response:
        if request.data.get("wrong"):
            raise ApiError(409, "It is there already.")
        return Response(True)


class NotesViewSet(ViewSet):
    permission_classes = NotesView.permission_classes
    throttle_classes = NotesView.throttle_classes

    def retrieve(self, request: Request) -> Response:
        return Response("a note")

    def create(self, request: Request) -> Response:
        return Response(True)


@pytest.fixture(autouse=True)
def _three_a_minute(neutral_errors: None, settings: Settings) -> None:
    settings.NOTES_LIMIT = 3


def call(method: str = "POST", user: User | None = None, address: str = "192.0.2.1", **body: Any) -> HttpResponse:
    request = APIRequestFactory().generic(method, "/notes", "{}" if not body else '{"wrong": 1}', "application/json")
    request.META["REMOTE_ADDR"] = address
    if user:
        force_authenticate(request, user)
    return NotesView.as_view()(request)


def test_a_request_over_the_limit_is_refused_with_a_retry_time() -> None:
    answers = [call() for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert [answer["X-RateLimit-Remaining"] for answer in answers] == ["2", "1", "0", "0", "0"]
    assert {answer["X-RateLimit-Limit"] for answer in answers} == {"3"}
    assert answers[-1]["Retry-After"] == answers[-1]["X-RateLimit-Reset-After"]
    assert all("X-RateLimit-Reset" in answer for answer in answers)


def test_other_methods_are_neither_counted_nor_refused() -> None:
    for _ in range(5):
        call()
    answer = call("GET")
    assert answer.status_code == 200
    assert "X-RateLimit-Limit" not in answer


def test_a_method_that_a_route_of_a_view_set_does_not_allow_is_not_counted() -> None:
    request = APIRequestFactory().post("/notes/1")
    refused = NotesViewSet.as_view({"get": "retrieve"})(request)
    assert (refused.status_code, "X-RateLimit-Limit" in refused) == (405, False)
    assert NotesViewSet.as_view({"post": "create"})(request)["X-RateLimit-Remaining"] == "2"


def test_an_error_response_is_counted_and_has_rate_limit_headers() -> None:
    answer = call(wrong=True)
    assert (answer.status_code, answer["X-RateLimit-Remaining"]) == (409, "2")


def test_users_and_addresses_are_counted_apart() -> None:
    one, other = User(pk=1), User(pk=2)
    for _ in range(3):
        assert (
            call(user=one).status_code == call(user=other).status_code == call(address="192.0.2.9").status_code == 200
        )
    assert call(user=one, address="192.0.2.77").status_code == 429
    assert call(address="192.0.2.9").status_code == 429
    assert call(address="192.0.2.10").status_code == 200
