"""Errors inside Django: JSON without internal details, and with the request id."""

import logging

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    NoCredentialsError,
    SSLError,
)
from django.db import OperationalError
from django.test import AsyncClient, Client
from pytest_django import Settings
from s3transfer.exceptions import RetriesExceededError

from shared.api.errors import ApiError, Problem, ValidationFailed
from shared.api.exception_handler import validation_problem
from shared.api.middleware.errors import is_transient_database_error
from shared.observability.metrics import render
from shared.s3 import is_transient_s3_error
from tests.shared.observability.scraped import Scrape, grown

pytestmark = [pytest.mark.urls("tests.shared.api.wire"), pytest.mark.usefixtures("neutral_errors")]


@pytest.fixture
def client() -> Client:
    return Client(raise_request_exception=False, headers={"X-Request-Id": "mine-1"})


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("get", "/nowhere", 404, "not_found"),
        ("get", "/orders/", 404, "not_found"),
        ("get", "/orders", 405, "method_not_allowed"),
        ("get", "/private", 401, "not_authenticated"),
        ("get", "/fails/api", 409, "conflict"),
        ("get", "/fails/missing", 404, "not_found"),
        ("get", "/fails/denied", 403, "permission_denied"),
        ("get", "/fails/suspicious", 400, "invalid_request"),
        ("get", "/fails/unforeseen", 500, "internal_error"),
        ("get", "/fails/busy", 503, "unavailable"),
        ("get", "/fails-async", 500, "internal_error"),
    ],
)
def test_o5_every_error_is_json_with_the_request_id(
    client: Client, method: str, path: str, status: int, code: str
) -> None:
    answer = getattr(client, method)(path)
    assert answer.status_code == status
    assert answer["Content-Type"] == "application/json"
    assert answer["X-Request-Id"] == "mine-1"
    body = answer.json()
    assert (body["status"], body["code"], body["path"], body["request_id"]) == (status, code, path, "mine-1")
    assert "secret words" not in answer.text
    assert "Traceback" not in answer.text


async def test_o5_errors_are_json_under_asgi_too() -> None:
    client = AsyncClient(raise_request_exception=False)
    for path, status in [("/nowhere", 404), ("/fails-async", 500), ("/fails/unforeseen", 500), ("/fails/api", 409)]:
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["status"]) == (status, status)


def test_o5_an_unexpected_exception_is_logged_once_with_its_traceback(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.get("/fails/unforeseen")
    lines = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [line.getMessage() for line in lines if line.exc_info] == ["request_failed"]


def test_o5_a_wrong_host_is_a_400_in_json(client: Client) -> None:
    answer = client.get("/orders", headers={"Host": "evil.example"})
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_request"


def test_errors_of_the_admin_stay_html_pages(client: Client, settings: Settings) -> None:
    answer = client.post("/admin/login/", {"username": "a"}, HTTP_ORIGIN="https://evil.example")
    assert answer["Content-Type"].startswith("text/html")


def test_an_api_error_keeps_its_headers_and_details(client: Client) -> None:
    answer = client.get("/fails/api")
    assert answer["Retry-After"] == "7"
    assert answer.json()["details"] == {"by": "another"}
    assert answer.json()["message"] == "It is taken."


def test_a_405_lists_the_allowed_methods(client: Client) -> None:
    assert "POST" in client.get("/orders")["Allow"]


def test_a_401_says_how_to_sign_in(client: Client) -> None:
    assert client.get("/private")["WWW-Authenticate"] == "Bearer"


def test_a_busy_database_is_a_503_with_a_retry_time(client: Client) -> None:
    before = Scrape(render().decode())
    assert int(client.get("/fails/busy")["Retry-After"]) > 0
    assert grown(Scrape(render().decode()), before, ["stoa_database_failures_total"]) == [1]


@pytest.mark.django_db
def test_a_missing_table_is_not_a_transient_error(client: Client) -> None:
    answer = client.get("/missing-table")
    assert answer.status_code == 500
    assert "no_such_table" not in answer.text


def test_only_transient_database_errors_are_transient() -> None:
    assert is_transient_database_error(OperationalError("the connection is closed"))
    assert not is_transient_database_error(ValueError("database is locked"))


def test_validation_errors_are_named_by_field_with_dotted_paths(client: Client) -> None:
    body = {"name": "too long", "lines": [{"quantity": 1}, {"quantity": 0}]}
    answer = client.post("/orders", body, content_type="application/json")
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"name", "lines.1.quantity"}
    assert answer.json()["message"] == answer.json()["errors"]["name"][0]
    assert answer.json()["code"] == "validation_error"


def test_a_validation_error_without_a_field_has_a_name_too() -> None:
    assert validation_problem(["Not so."]).errors == {"non_field_errors": ["Not so."]}


def test_each_project_has_its_own_status_for_validation(settings: Settings) -> None:
    settings.API_VALIDATION_STATUS = 400
    assert ValidationFailed({"name": ["Too long."]}).problem.status == 400


def test_an_unnamed_status_has_the_code_of_its_class() -> None:
    assert Problem.from_status(418).code == "invalid_request"
    assert Problem.from_status(507).code == "internal_error"
    assert ApiError(503, "Later.").problem.code == "unavailable"


@pytest.mark.parametrize(
    ("error", "is_transient"),
    [
        (EndpointConnectionError(endpoint_url="https://s3.example"), True),
        (SSLError(endpoint_url="https://s3.example", error="bad record mac"), True),
        (ConnectionClosedError(endpoint_url="https://s3.example"), True),
        (ClientError({"ResponseMetadata": {"HTTPStatusCode": 503}}, "PutObject"), True),
        (ClientError({"ResponseMetadata": {"HTTPStatusCode": 403}}, "PutObject"), False),
        (RetriesExceededError(OSError()), True),
        (NoCredentialsError(), False),
    ],
)
def test_an_s3_server_that_fails_may_answer_later(error: Exception, is_transient: bool):
    assert is_transient_s3_error(error) is is_transient
