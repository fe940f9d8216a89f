"""Time and concurrency limits of list queries."""

from contextlib import ExitStack
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client

from shared.api.limits import query_limits
from shared.api.limits.query_limits import MAX_CONCURRENT_SEARCHES, QueryTimeout, limit_query_time, pause_query_time
from tests.shared.api.lists.list_views import COUNTING
from tests.shared.api.lists.test_pagination import make_users

pytestmark = [pytest.mark.urls("tests.shared.api.lists.list_views"), pytest.mark.usefixtures("neutral_errors", "db")]


def count_to(number: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(COUNTING % number)
        return int(cursor.fetchone()[0])


def test_the_database_ends_a_slow_query_and_the_connection_stays_usable():
    with pytest.raises(QueryTimeout), limit_query_time(0.05):
        count_to(10**10)

    assert count_to(200_000) == 200_000


def test_a_limit_holds_after_another_inside_it():
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(QueryTimeout))
        stack.enter_context(limit_query_time(0.05))
        with limit_query_time(0.05):
            count_to(10)
        count_to(10**10)


def test_time_in_a_pause_does_not_count_and_the_limit_holds_afterwards():
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(QueryTimeout))
        stack.enter_context(limit_query_time(0.05))
        with pause_query_time():
            assert count_to(2 if connection.vendor == "postgresql" else 2_000_000) > 1
        count_to(10**10)


def test_a_query_within_the_time_limit_returns_its_rows():
    with limit_query_time(30):
        assert count_to(200_000) == 200_000


def test_other_database_errors_are_not_converted():
    with pytest.raises(OperationalError, match="away"), limit_query_time(30):
        raise OperationalError("the server went away")


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"search": "name:lamp"}, "search"),
        ({"search": "name:lamp", "orderBy": "name"}, "search"),
        ({"orderBy": "name"}, "orderBy"),
        ({"page": "1000"}, "page"),
    ],
)
@pytest.mark.parametrize("path", ["/endless", "/endless-array"])
def test_a_slow_list_is_refused_with_the_parameter_to_reduce(
    monkeypatch: pytest.MonkeyPatch, path: str, query: dict[str, Any], named: str
):
    monkeypatch.setattr(query_limits, "MAX_QUERY_SECONDS", 0.05)
    make_users(3)

    answer = Client().get(path, query)

    assert answer.status_code == 422
    words = "This query takes more than 0.05 seconds. Use longer words, = or another filter."
    assert answer.json()["errors"] == {named: [words]}


def test_concurrent_searches_leave_connections_for_other_requests(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(query_limits, "_MAX_WAIT_SECONDS", 0.01)
    make_users(3)
    search = {"search": "name:0001"}
    with ExitStack() as others:
        for user in range(MAX_CONCURRENT_SEARCHES):
            others.enter_context(query_limits._slots.acquire(f"user:{user}", timeout_s=1))

        refused = Client().get("/users", search)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
        assert len(Client().get("/users").json()) == 3

    assert [row["name"] for row in Client().get("/users", search).json()] == ["0001"]


def test_n11_searches_of_one_client_leave_a_place_for_another(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(query_limits, "_MAX_WAIT_SECONDS", 0.01)
    make_users(3)
    search = {"search": "name:0001"}
    with ExitStack() as others:
        for _ in range(MAX_CONCURRENT_SEARCHES - 1):
            others.enter_context(query_limits._slots.acquire("address:192.0.2.1", timeout_s=1))

        assert Client(REMOTE_ADDR="192.0.2.1").get("/users", search).status_code == 503
        assert Client(REMOTE_ADDR="192.0.2.2").get("/users", search).status_code == 200


@pytest.mark.parametrize("path", ["/endless", "/users"])
def test_a_search_releases_its_slot(monkeypatch: pytest.MonkeyPatch, path: str):
    monkeypatch.setattr(query_limits, "MAX_QUERY_SECONDS", 0.05)
    monkeypatch.setattr(query_limits, "_MAX_WAIT_SECONDS", 0.01)
    make_users(3)

    statuses = {Client().get(path, {"search": "name:0"}).status_code for _ in range(MAX_CONCURRENT_SEARCHES + 1)}

    assert statuses == {422 if path == "/endless" else 200}
