"""Rows I2 and I7 on every route: JSON that no database can store, and invalid ids."""

import json
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.commerce.routes.route_table import TABLE, Row
from tests.commerce.routes.scenario import IDENTITIES, World, make_world
from tests.shared.api.test_parsers import REFUSED

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]

ANSWERS_FALSE = "PUT /api/attachments/{attachment}"  # for any body, as the contract says
WRITES = [row for row in TABLE if row.body is not None and row.name != ANSWERS_FALSE]
NAMED = [row for row in TABLE if "{" in row.path]
UNSAFE = {name: body for name, body in REFUSED.items() if body}  # no body is the same as an empty one
NO_IDS = ["0", "-1", str(2**31), str(2**63), str(10**30), "9" * 5000, "1.5", "1e3", "٣", "%00", "%ff", "..", "null"]


@pytest.fixture
def world(settings: Settings, provider_server: ProviderServer, tmp_path: Any) -> World:
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    settings.DESCRIPTIONS_API_KEY = "sk-test"
    settings.MEDIA_ROOT = tmp_path
    settings.LOGIN_LIMIT = settings.EMAIL_LIMIT = 100_000
    settings.CONTENT_WRITE_LIMIT = settings.UPLOAD_LIMIT = settings.DELETE_LIMIT = 100_000
    return make_world()


def who_may(row: Row) -> str:
    """Return a user for whom the table expects success."""
    return next((name for name, status in zip(IDENTITIES, row.statuses, strict=True) if status < 300), "super admin")


def test_i2_json_that_no_database_can_store_is_refused(world: World):
    for row in WRITES:
        client = Client(raise_request_exception=False, headers=world.headers(who_may(row)))
        path = row.path.format(**world.names)
        got = {}
        for name, body in UNSAFE.items():
            answer = client.generic(row.method, path, body, content_type="application/json")
            assert set(json.loads(answer.content)) >= {"message", "code", "request_id"}, (row.name, name)
            got[name] = answer.status_code
        files = any(isinstance(world.names.get(str(value)[1:-1]), bytes) for value in row.body.values())
        assert set(got.values()) <= ({415} if files else {400, 413, 422}), (row.name, got)


def test_i2_json_in_an_invalid_encoding_is_refused(world: World):
    for row in WRITES:
        client = Client(raise_request_exception=False, headers=world.headers(who_may(row)))

        path = row.path.format(**world.names)
        answer = client.generic(row.method, path, b"{}", content_type="application/json; charset=nope")

        assert answer.status_code in (400, 415, 422), row.name


def test_i7_an_invalid_id_is_never_a_server_error(world: World):
    for row in NAMED:
        for name in {part[1:-1] for part in row.path.split("/") if part.startswith("{")}:
            for number in NO_IDS:
                names = world.names
                world.names = names | {name: number}
                status = world.request("super admin", row.method, row.path, row.body).status_code
                world.names = names
                assert status in (400, 404, 422) or row.name == ANSWERS_FALSE, (row.name, name, number, status)
