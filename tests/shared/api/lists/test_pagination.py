"""Pages and JSON arrays."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.lists import pagination
from shared.api.lists.pagination import visible_pages

pytestmark = [pytest.mark.urls("tests.shared.api.lists.list_views"), pytest.mark.usefixtures("neutral_errors")]


def make_users(count: int, first: int = 0) -> None:
    User.objects.bulk_create(
        User(email=f"{number}@example.com", name=f"{number:04}", role=Role.CUSTOMER, created_at=timezone.now())
        for number in range(first, first + count)
    )


def page(**query: Any) -> dict[str, Any]:
    answer = Client().get("/pages", query)
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def test_a_page_has_every_key_of_the_paginator(db: None):
    make_users(5)

    assert page(limit=2, page=2, search="name:00") | {"data": None} == {
        "current_page": 2,
        "data": None,
        "first_page_url": "http://testserver/pages?limit=2&search=name%3A00&page=1",
        "from": 3,
        "last_page": 3,
        "last_page_url": "http://testserver/pages?limit=2&search=name%3A00&page=3",
        "links": [
            {
                "url": "http://testserver/pages?limit=2&search=name%3A00&page=1",
                "label": "&laquo; Previous",
                "active": False,
            },
            {"url": "http://testserver/pages?limit=2&search=name%3A00&page=1", "label": "1", "active": False},
            {"url": "http://testserver/pages?limit=2&search=name%3A00&page=2", "label": "2", "active": True},
            {"url": "http://testserver/pages?limit=2&search=name%3A00&page=3", "label": "3", "active": False},
            {
                "url": "http://testserver/pages?limit=2&search=name%3A00&page=3",
                "label": "Next &raquo;",
                "active": False,
            },
        ],
        "next_page_url": "http://testserver/pages?limit=2&search=name%3A00&page=3",
        "path": "http://testserver/pages",
        "per_page": 2,
        "prev_page_url": "http://testserver/pages?limit=2&search=name%3A00&page=1",
        "to": 4,
        "total": 5,
    }
    assert [row["name"] for row in page(limit=2, page=2)["data"]] == ["0002", "0003"]
    assert page()["per_page"] == 15


def test_an_empty_list_has_one_empty_page(db: None):
    told = page()

    assert (told["data"], told["from"], told["to"], told["last_page"], told["total"]) == ([], None, None, 1, 0)
    assert (told["next_page_url"], told["prev_page_url"]) == (None, None)
    assert [link["label"] for link in told["links"]] == ["&laquo; Previous", "1", "Next &raquo;"]


@pytest.mark.parametrize("number", ["3", str(2**31), str(2**63), str(10**30), "9" * 5000])
def test_i7_a_page_past_the_end_is_empty(db: None, number: str):
    make_users(4)

    told = page(limit=2, page=number)

    assert (told["data"], told["from"], told["to"], told["last_page"], told["total"]) == ([], None, None, 2, 4)
    assert told["next_page_url"] is None


@pytest.mark.parametrize("number", ["0", "-1", "x", "", "1.5", "٢", "2\x00", "00"])
def test_i7_an_invalid_page_is_the_first(db: None, number: str):
    make_users(4)

    assert page(limit=2, page=number)["current_page"] == 1


@pytest.mark.parametrize("path", ["/pages", "/users"])
@pytest.mark.parametrize("limit", ["0", "-1", "abc", "1e9", "1.0", "٣", "000", "1\x00"])
def test_c7_an_invalid_limit_is_refused(db: None, path: str, limit: str):
    answer = Client().get(path, {"limit": limit})

    assert answer.status_code == 422
    assert answer.json()["errors"] == {"limit": ["Send a whole number from 1 to 100."]}


@pytest.mark.parametrize("limit", ["100", "101", str(10**9), str(2**63), "9" * 5000])
def test_c7_a_limit_is_capped_at_a_hundred(db: None, limit: str):
    make_users(120)

    assert (page(limit=limit)["per_page"], len(page(limit=limit)["data"])) == (100, 100)
    assert len(Client().get("/users", {"limit": limit}).json()) == 100


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_row_is_on_exactly_one_page(db: None, count: int):
    make_users(7)

    pages = [page(limit=count, page=number) for number in range(1, page(limit=count)["last_page"] + 1)]

    assert [row["name"] for told in pages for row in told["data"]] == [f"{number:04}" for number in range(7)]
    assert {told["total"] for told in pages} == {7}
    assert [told["next_page_url"] is None for told in pages] == [False] * (len(pages) - 1) + [True]


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_every_row_is_on_one_page_where_the_ordered_column_is_equal_or_null(db: None, direction: str):
    make_users(11)
    for number in range(0, 11, 3):  # the others have none
        User.objects.filter(name=f"{number:04}").update(last_login=datetime(2026, 1, 1 + number % 2, tzinfo=UTC))
    whole = [row["id"] for row in page(orderBy="last_login", sortedBy=direction)["data"]]

    pages = [page(orderBy="last_login", sortedBy=direction, limit=2, page=number)["data"] for number in range(1, 8)]

    assert [row["id"] for rows in pages for row in rows] == whole
    assert len(set(whole)) == 11


def test_counting_stops_and_the_next_page_is_still_found(db: None, monkeypatch: pytest.MonkeyPatch):
    for name in ("MAX_FRESH_COUNT", "MAX_EXACT_COUNT"):
        monkeypatch.setattr(pagination, name, 5)
    pagination._counts.clear()
    make_users(9)

    totals, number, told = [], 1, page(limit=2)
    while told["next_page_url"]:
        totals.append(told["total"])
        number += 1
        told = page(limit=2, page=number)

    assert totals == [6, 6, 7, 9]
    assert (number, told["total"], len(told["data"])) == (5, 9, 1)


def test_the_count_of_many_rows_is_kept_for_a_while_for_each_filter(db: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pagination, "MAX_FRESH_COUNT", 5)
    pagination._counts.clear()
    make_users(9)
    assert page(limit=2)["total"] == 9

    User.objects.filter(name="0003").delete()
    make_users(4, first=20)
    assert page(limit=2)["total"] == 9
    assert page(limit=2, search="name:002")["total"] == 5  # few are counted anew
    assert page(limit=2, search="name:0")["total"] == 12
    assert page(limit=2, page=6)["total"] == 12  # the last page shows how many there are
    pagination._counts.clear()
    assert page(limit=2)["total"] == 12


def test_c7_a_page_costs_at_most_two_queries(db: None, django_assert_num_queries: Any):
    make_users(40)

    with django_assert_num_queries(2):
        page(limit=10)
    with django_assert_num_queries(1):
        page(limit=10, page=4)


@pytest.mark.parametrize(
    ("current", "last", "shown"),
    [
        (1, 1, "1"),
        (5, 13, "1 2 3 4 5 6 7 8 9 10 11 12 13"),
        (1, 20, "1 2 3 4 5 6 7 8 9 10 ... 19 20"),
        (7, 20, "1 2 3 4 5 6 7 8 9 10 ... 19 20"),
        (8, 20, "1 2 ... 5 6 7 8 9 10 11 ... 19 20"),
        (13, 20, "1 2 ... 10 11 12 13 14 15 16 ... 19 20"),
        (14, 20, "1 2 ... 11 12 13 14 15 16 17 18 19 20"),
        (20, 20, "1 2 ... 11 12 13 14 15 16 17 18 19 20"),
        (99, 20, "1 2 ... 11 12 13 14 15 16 17 18 19 20"),
    ],
)
def test_visible_pages_are_the_ends_and_the_neighbours(current: int, last: int, shown: str):
    assert " ".join("..." if number is None else str(number) for number in visible_pages(current, last)) == shown


def test_an_array_has_all_rows_of_a_short_list(db: None, monkeypatch: pytest.MonkeyPatch):
    make_users(5)
    whole = Client().get("/users")
    assert len(whole.json()) == 5
    assert "Link" not in whole.headers

    first = Client().get("/users", {"limit": 3})
    assert [row["name"] for row in first.json()] == ["0000", "0001", "0002"]
    assert first.headers["Link"] == '<http://testserver/users?limit=3&page=2>; rel="next"'
    rest = Client().get("/users", {"limit": 3, "page": 2})
    assert [row["name"] for row in rest.json()] == ["0003", "0004"]
    assert "Link" not in rest.headers


def test_an_array_ends_at_a_thousand_rows_with_a_link_to_the_next(db: None):
    make_users(1001)

    answer = Client().get("/users")

    assert len(answer.json()) == 1000
    assert answer.headers["Link"] == '<http://testserver/users?page=2>; rel="next"'
    assert [row["name"] for row in Client().get("/users?page=2").json()] == ["1000"]


def test_n3_an_array_tells_the_number_of_all_rows(db: None):
    make_users(5)
    for query, count in [("", 5), ("?limit=2", 2), ("?limit=2&page=3", 1), ("?limit=2&page=9", 0)]:
        answer = Client().get(f"/users{query}")
        assert (answer.headers["X-Total-Count"], len(answer.json())) == ("5", count)


@pytest.mark.parametrize("query", ["", "?limit=7", "?limit=12&page=2", "?limit=1"])
def test_n3_an_array_ends_at_its_maximum_size_and_the_links_lead_through_all_rows(
    db: None, monkeypatch: pytest.MonkeyPatch, query: str
):
    make_users(30)
    whole = [row["id"] for row in Client().get("/users").json()]
    monkeypatch.setattr(pagination, "MAX_ARRAY_BYTES", 300)
    url, ids, pages = f"http://testserver/users{query}", [], 0
    while url:
        answer = Client().get(url)
        assert len(answer.content) <= 300 or len(answer.json()) == 1
        assert answer.headers["X-Total-Count"] == "30"
        ids += [row["id"] for row in answer.json()]
        url, pages = answer.headers.get("Link", "").partition(">")[0].removeprefix("<"), pages + 1
    assert ids == (whole[12:] if "page=2" in query else whole)
    assert pages > 1, "300 bytes do not have all rows"


def test_n3_a_row_larger_than_the_maximum_is_sent_alone(db: None, monkeypatch: pytest.MonkeyPatch):
    make_users(3)
    monkeypatch.setattr(pagination, "MAX_ARRAY_BYTES", 10)
    answer = Client().get("/users")
    assert [row["name"] for row in answer.json()] == ["0000"]
    assert answer.headers["Link"] == '<http://testserver/users?offset=1>; rel="next"'
