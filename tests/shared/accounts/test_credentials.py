"""Credentials in request headers, and nowhere else."""

import logging

import pytest
from django.test import Client
from django.utils import timezone

from shared.accounts.authentication import credential_from_headers
from shared.accounts.models import User
from shared.accounts.services import create_api_key
from tests.shared.accounts.conftest import signed_in

ROUTES = ["/who", "/who-async"]


@pytest.fixture(params=["token", "key"])
def credential(request: pytest.FixtureRequest, user: User) -> str:
    if request.param == "token":
        return signed_in(user).access
    return create_api_key(user=user, name="k", now=timezone.now())[1]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER   {}  "])
def test_a_bearer_header_is_accepted(route: str, form: str, credential: str) -> None:
    assert Client().get(route, headers={"Authorization": form.format(credential)}).status_code == 200


@pytest.mark.parametrize("route", ROUTES)
def test_an_x_api_key_header_is_accepted(route: str, credential: str) -> None:
    assert Client().get(route, headers={"X-API-Key": credential}).status_code == 200
    both = {"X-API-Key": credential, "Authorization": "Bearer"}
    assert Client().get(route, headers=both).status_code == 200


@pytest.mark.parametrize("route", ROUTES)
def test_a8_a_credential_in_url_cookie_or_body_is_ignored_and_never_logged(
    route: str, credential: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("token", "access_token", "api_key", "key", "authorization", "Authorization", "jwt", "X-API-Key"):
        assert Client().get(route, {name: credential}).status_code == 401
        client = Client()
        client.cookies[name] = credential
        assert client.get(route).status_code == 401
        answer = Client().post("/who", {name: credential}, content_type="application/json")
        assert answer.status_code == 401
        assert credential not in answer.text
    assert credential not in caplog.text


@pytest.mark.parametrize(
    "header",
    ["{}", "Basic {}", "Token {}", "Bearer: {}", "Bearer,{}", "Bearer {0} {0}", "Bearer {0},Bearer {0}", "Bearer\t{}"],
)
@pytest.mark.parametrize("route", ROUTES)
def test_a8_other_forms_of_the_header_are_refused(route: str, header: str, credential: str) -> None:
    assert Client().get(route, headers={"Authorization": header.format(credential)}).status_code == 401


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer"}, {"authorization": "Bearer  "}, {"x-api-key": ""}])
def test_a_bare_bearer_is_no_credential(headers: dict[str, str]) -> None:
    assert credential_from_headers(headers) is None


def test_every_401_has_the_same_body(user: User) -> None:
    key, raw = create_api_key(user=user, name="k", now=timezone.now())
    expired = create_api_key(user=user, name="k", expires_at=timezone.now(), now=timezone.now())[1]
    bodies = set()
    for wrong in (raw + "x", expired, key.prefix, "rubbish", signed_in(user).refresh):
        headers = {"Authorization": f"Bearer {wrong}", "X-Request-Id": "same"}
        answer = Client().get("/who", headers=headers)
        assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
        bodies.add(answer.content)
    assert len(bodies) == 1
