"""The cache of public responses: what is kept, and that every write ends it."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from commerce.catalog.models import Tag
from shared.accounts.models import SignIn
from shared.accounts.roles import Role
from shared.api.reads import cache
from tests.commerce.conftest import bearer, make_user

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/api/tags"


@pytest.fixture(autouse=True)
def keep_for_a_minute(settings: Settings) -> Iterator[None]:
    settings.PUBLIC_CACHE_SECONDS = 60
    settings.REDIS_URL = os.environ["REDIS_URL"]
    cache._responses().clear()
    connection.close()  # the next one is watched
    yield
    connection.execute_wrappers[:] = [
        wrapper for wrapper in connection.execute_wrappers if wrapper != cache._note_write
    ]


def names(**headers: str) -> list[str]:
    response = Client(headers=headers).get(PATH)
    assert response.status_code == 200
    return [tag["name"] for tag in response.json()["data"]]


def tag(name: str) -> Tag:
    return Tag.objects.create(name=name, slug=name)


def test_a_second_request_is_answered_without_a_query(django_assert_num_queries: DjangoAssertNumQueries):
    tag("lamp")
    first = Client().get(PATH)
    with django_assert_num_queries(0):
        second = Client().get(PATH)
    assert (second.status_code, second.content) == (200, first.content)
    ours = {"Content-Type", "Vary", "Cache-Control", "ETag", "X-Total-Count", "API-Version"}
    assert {name: second.get(name) for name in ours} == {name: first.get(name) for name in ours}
    with django_assert_num_queries(0):
        assert Client(headers={"If-None-Match": first["ETag"]}).get(PATH).status_code == 304


def raw_insert() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO commerce_catalog_tag (name, slug, language, created_at, updated_at)"
            " VALUES ('new', 'new', 'en', '2026-01-01', '2026-01-01')"
        )


@pytest.mark.parametrize(
    ("write", "after"),
    [
        (lambda: tag("new"), {"lamp", "new"}),
        (lambda: Tag.objects.update(name="changed"), {"changed"}),
        (lambda: Tag.objects.bulk_create([Tag(name="new", slug="new")]), {"lamp", "new"}),
        (lambda: Tag.objects.all().delete(), set()),
        (raw_insert, {"lamp", "new"}),
    ],
    ids=["save", "update", "bulk_create", "delete", "raw SQL"],
)
def test_every_way_to_write_ends_what_is_kept(write: Callable[[], Any], after: set[str]):
    tag("lamp")
    assert names() == ["lamp"]
    write()
    assert set(names()) == after


def test_a_write_ends_it_when_it_is_committed_and_not_before():
    tag("lamp")
    assert names() == ["lamp"]
    with transaction.atomic():
        with transaction.atomic():
            Tag.objects.update(name="changed")
        Tag.objects.update(name="changed twice")
        before = cache._write_counter.cache_info().hits
        assert len([entry for entry in connection.run_on_commit if entry[1] is cache.forget_all]) == 1
    assert cache._write_counter.cache_info().hits == before + 1
    assert names() == ["changed twice"]


def test_a_savepoint_that_is_rolled_back_takes_no_later_write_with_it():
    tag("lamp")
    assert names() == ["lamp"]
    with transaction.atomic():
        with transaction.atomic():
            Tag.objects.update(name="undone")
            transaction.set_rollback(True)
        Tag.objects.update(name="changed")
    assert names() == ["changed"]


def test_a_table_that_no_public_response_shows_ends_nothing(django_assert_num_queries: DjangoAssertNumQueries):
    customer = make_user(Role.CUSTOMER)
    assert names() == []
    now = timezone.now()
    SignIn.objects.create(user=customer, token_version=0, created_at=now, refreshed_at=now, expires_at=now)
    with django_assert_num_queries(0):
        assert names() == []


def test_another_process_that_wrote_ends_it(settings: Settings, django_assert_num_queries: DjangoAssertNumQueries):
    assert names() == []
    with django_assert_num_queries(0):
        assert names() == []
    cache.WriteCounter(settings.REDIS_URL, f"stoa:{settings.PROJECT}:writes").increment()
    with pytest.raises(pytest.fail.Exception), django_assert_num_queries(0):
        names()


def test_requests_with_credentials_are_neither_kept_nor_answered_from_it(
    django_assert_max_num_queries: DjangoAssertNumQueries,
):
    customer = make_user(Role.CUSTOMER)
    names()
    size = len(cache._responses()._cache)  # type: ignore[attr-defined]  # how many are kept
    for headers in (
        bearer(customer),
        {"Authorization": "Bearer wrong"},
        {"X-API-Key": "stoa_wrong"},
        {"Cookie": "a=b"},
    ):
        with pytest.raises(pytest.fail.Exception), django_assert_max_num_queries(0):
            Client(headers=headers).get(PATH)
    assert len(cache._responses()._cache) == size  # type: ignore[attr-defined]


def test_what_is_asked_for_tells_responses_apart():
    tag("lamp")
    asked: list[tuple[str, dict[str, str]]] = [
        (PATH, {}),
        (f"{PATH}?limit=1", {}),
        (f"{PATH}?limit=1&page=2", {}),
        (PATH, {"Accept-Language": "de"}),
    ]
    for path, headers in asked:
        Client(headers=headers).get(path)
    assert len(cache._responses()._cache) == len(asked)  # type: ignore[attr-defined]
    assert Client().get(f"{PATH}?limit=1&page=2").json()["data"] == []


def test_errors_are_not_kept():
    assert Client().get("/api/tags/nothing").status_code == 404
    assert not cache._responses()._cache  # type: ignore[attr-defined]


def test_without_redis_every_request_is_answered_by_the_view(settings: Settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    tag("lamp")
    assert names() == ["lamp"]
    Tag.objects.update(name="changed")
    assert names() == ["changed"]
    assert not cache._responses()._cache  # type: ignore[attr-defined]
