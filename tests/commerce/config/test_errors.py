"""Every error of the shop is JSON of one form."""

from typing import Any

import pytest

from commerce.descriptions import services
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.conftest import ApiClient

PATH = "/api/generate-descriptions"


def assert_error(answer: Any, status: int, code: str) -> None:
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/json"
    body = answer.json()
    assert body["code"] == code
    assert body["message"]
    assert body["request_id"] == answer.headers["X-Request-Id"]
    assert set(body) - {"errors"} == {"message", "code", "request_id"}


@pytest.mark.parametrize("path", ["/api/nothing", "/nothing", "/api/me//", "/api"])
def test_an_unknown_path_is_404(client_of: ApiClient, path: str):
    assert_error(client_of(None).get(path), 404, "not_found")


@pytest.mark.parametrize("method", ["get", "put", "patch", "delete", "options"])
def test_a_wrong_method_is_405(client_of: ApiClient, owner: User, method: str):
    answer = getattr(client_of(owner), method)(PATH)

    assert_error(answer, 405, "method_not_allowed")
    assert "POST" in answer.headers["Allow"]


def test_a_body_of_another_type_is_415(client_of: ApiClient, owner: User):
    assert_error(client_of(owner).post(PATH, "<a/>", content_type="text/xml"), 415, "unsupported_media_type")


@pytest.mark.parametrize("body", ["{", "[]", '"text"', '{"product_name": NaN}', b"\xff\xfe", "[" * 100_000])
def test_a_body_that_is_no_json_object_is_a_validation_error(client_of: ApiClient, owner: User, body: str | bytes):
    answer = client_of(owner).post(PATH, body, content_type="application/json")

    assert_error(answer, 422, "validation_error")
    assert answer.json()["errors"] == {"non_field_errors": [answer.json()["message"]]}


@pytest.mark.parametrize("credential", ["Bearer nonsense", "Bearer stoa_abc_def", "Bearer eyJhbGciOiJIUzI1NiJ9.e30.x"])
@pytest.mark.parametrize("path", ["products", "shops", "reviews", "attributes", "types", "openapi.json"])
def test_a_public_read_with_a_stale_token_is_anonymous(client_of: ApiClient, shop: Shop, path: str, credential: str):
    stale = client_of(None).get(f"/api/{path}", headers={"Authorization": credential})

    assert stale.status_code == 200
    assert stale.content == client_of(None).get(f"/api/{path}").content
    for method in ("post", "put", "delete"):
        written = getattr(client_of(None), method)(f"/api/{path}/1", headers={"Authorization": credential})
        assert written.status_code in (401, 404, 405)


def test_an_unexpected_exception_is_500_without_details(
    client_of: ApiClient, owner: User, monkeypatch: pytest.MonkeyPatch
):
    async def stumble(**_: object) -> str:
        raise RuntimeError("canary")

    monkeypatch.setattr(services, "write_description", stumble)
    answer = client_of(owner).post(PATH, {"product_name": "x"}, content_type="application/json")

    assert_error(answer, 500, "internal_error")
    assert b"canary" not in answer.content


@pytest.mark.parametrize("token", ["nonsense", "stoa_abc_def", "a.b.c"])
def test_an_invalid_credential_is_401(client_of: ApiClient, token: str):
    answer = client_of(None).get("/api/me", headers={"Authorization": f"Bearer {token}"})

    assert_error(answer, 401, "not_authenticated")
