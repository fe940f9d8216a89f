"""Row A9: every route with every method for every kind of user; a route that is not in the table fails."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.http.response import HttpResponseBase
from django.test import override_settings
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from pytest_django import DjangoDbBlocker, Settings

from shared.accounts.services import create_api_key
from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.commerce.routes.route_table import TABLE, Row
from tests.commerce.routes.scenario import IDENTITIES, World, make_world
from tests.shared.accounts.forged import forged_tokens

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# Pages with a session of their own, which Django's admin guards (row X2).
PAGES = ("/admin", "/admin/", "/admin/health/")
PLAIN = ("/", "/livez", "/readyz")  # plain functions, which have no list of methods

pytestmark = [pytest.mark.django_db, pytest.mark.no_database]


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderServer]:
    server = ProviderServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("media")


@pytest.fixture(scope="module")
def only_world(django_db_setup: None, django_db_blocker: DjangoDbBlocker, media: Path) -> Iterator[World]:
    """One world for all tests, each of which rolls back what it changed."""
    outermost = transaction.atomic()
    outermost._from_testcase = True  # type: ignore[attr-defined]  # as Django's own for a class of tests
    high_limits = override_settings(MEDIA_ROOT=media, LOGIN_LIMIT=100_000, EMAIL_LIMIT=100_000)
    with django_db_blocker.unblock(), high_limits, outermost:
        yield make_world()
        transaction.set_rollback(True)


@pytest.fixture
def world(settings: Settings, provider: ProviderServer, media: Path, only_world: World) -> World:
    settings.DESCRIPTIONS_BASE_URL = provider.url("good")
    settings.DESCRIPTIONS_API_KEY = "sk-test"
    settings.MEDIA_ROOT = media
    settings.LOGIN_LIMIT = settings.EMAIL_LIMIT = 100_000
    return only_world


def routes() -> Iterator[tuple[str, frozenset[str]]]:
    """Yield every route with its parameters as `{}`, and the methods of its view."""

    def walk(patterns: list[Any], prefix: str) -> Iterator[tuple[str, frozenset[str]]]:
        for pattern in patterns:
            route = prefix + _plain(str(pattern.pattern))
            if route in PAGES:
                continue
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, route)
            elif isinstance(pattern, URLPattern):
                yield route, _methods(pattern.callback)

    yield from walk(get_resolver().url_patterns, "/")


def _plain(pattern: str) -> str:
    pattern = re.sub(r"^\^|\$$|\\Z$", "", pattern)
    pattern = re.sub(r"\(\?P<\w+>(?:[^()]|\([^()]*\))*\)", "{}", pattern)
    return re.sub(r"<[^>]+>", "{}", pattern)


def _methods(view: Any) -> frozenset[str]:
    if actions := getattr(view, "actions", None):
        return frozenset(method.upper() for method in actions) - {"HEAD"}
    view_class = getattr(view, "view_class", None) or getattr(view, "cls", None)
    if view_class is None:
        return frozenset({"GET"})  # a plain function
    return frozenset(method for method in METHODS if hasattr(view_class, method.lower()))


def anonymous_part(route: str) -> str:
    return re.sub(r"\{\w+\}", "{}", route)


def test_a9_every_route_and_method_has_a_row_and_every_row_a_route():
    there = {(method, route) for route, methods in routes() for method in methods}
    told = {(row.method, anonymous_part(row.route)) for row in TABLE}
    assert told == there
    assert len(told) == len(TABLE)


def answer(world: World, identity: str, row: Row, method: str | None = None, **sent: Any) -> HttpResponseBase:
    """Return the response to one request, whose changes are rolled back."""
    with transaction.atomic():
        answered = world.request(identity, method or row.method, row.path, row.body, **sent)
        transaction.set_rollback(True)
    return answered


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a9_each_role_gets_the_status_of_the_table(world: World, row: Row):
    got = {identity: answer(world, identity, row).status_code for identity in IDENTITIES}
    assert got == dict(zip(IDENTITIES, row.statuses, strict=True))


@pytest.mark.parametrize("route", sorted({row.route for row in TABLE} - set(PLAIN)))
def test_a9_other_methods_are_refused_to_everybody(world: World, route: str):
    rows = {row.method: row for row in TABLE if row.route == route}
    some = next(iter(rows.values()))
    for method in set(METHODS) - set(rows):
        statuses = {identity: answer(world, identity, some, method).status_code for identity in IDENTITIES}
        assert set(statuses.values()) <= {401, 403, 405}, (method, statuses)
        assert statuses["super admin"] in (403, 405), (method, statuses)


# Users who may write to a route get 405, all others 403 as for its other writes.
UNSUPPORTED = [
    ("PUT", "/api/abusive_reports", {"customer": 405, "super admin": 405}),
    ("PUT", "/api/abusive_reports/{report}", {"customer": 403, "super admin": 405}),
    ("PUT", "/api/abusive_reports/accept", {"customer": 403, "super admin": 405}),
    ("DELETE", "/api/orders/{order}", {"customer": 403, "staff": 405}),
    ("DELETE", "/api/refunds/{refund}", {"customer": 403, "staff": 403, "owner": 405}),
    ("PATCH", "/api/questions/{question}", {"customer": 405, "owner": 405}),
    ("PUT", "/api/shops", {"staff": 403, "owner": 405}),
]


@pytest.mark.parametrize(("method", "route", "statuses"), UNSUPPORTED)
def test_an_unsupported_method_needs_the_permission_to_write(
    world: World, method: str, route: str, statuses: dict[str, int]
):
    row = next(row for row in TABLE if row.route == route)
    got = {identity: answer(world, identity, row, method).status_code for identity in statuses}
    assert got == statuses


@pytest.mark.parametrize("row", [row for row in TABLE if row.statuses[0] == 401], ids=lambda row: row.name)
def test_a1_and_a8_no_forged_or_misplaced_token_opens_a_route(world: World, row: Row):
    admin, customer = world.pairs["super admin"], world.pairs["customer"]
    for name, token in forged_tokens(admin.access, admin.refresh, customer.access).items():
        assert answer(world, "nobody", row, headers={"Authorization": f"Bearer {token}"}).status_code == 401, name
    sound = admin.access
    for headers in ({"Cookie": f"token={sound}; Authorization=Bearer {sound}"}, {"X-Access-Token": sound}):
        assert answer(world, "nobody", row, headers=headers).status_code == 401
    for path in (f"{row.path}?token={sound}", f"{row.path}?access_token={sound}&Authorization=Bearer%20{sound}"):
        misplaced = Row(row.method, row.route, path, row.statuses, row.body)
        assert answer(world, "nobody", misplaced).status_code == 401


@pytest.mark.parametrize("row", [row for row in TABLE if row.statuses[0] == 401], ids=lambda row: row.name)
def test_a5_a_key_with_a_few_permissions_of_the_model_server_opens_nothing(world: World, row: Row):
    admin = world.users["super admin"]
    raw = create_api_key(user=admin, name="few", permissions=["run_inference"], now=timezone.now())[1]

    assert answer(world, "nobody", row, headers={"Authorization": f"Bearer {raw}"}).status_code == 403
