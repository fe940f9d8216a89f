"""Search, ordering, relations, language and filters of lists."""

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user
from shared.api.lists.relations import LoadedRelation
from shared.api.lists.search import MAX_SEARCH_LENGTH, search_column
from tests.shared.api.lists.list_views import UserFilters

pytestmark = [pytest.mark.urls("tests.shared.api.lists.list_views"), pytest.mark.usefixtures("neutral_errors")]

NOW = timezone.now()


@pytest.fixture
def people(db: None) -> list[User]:
    def make(name: str, role: Role) -> User:
        return create_user(email=f"{name}@example.com", name=name, password=None, role=role, now=NOW)

    anna, boris, carla = make("Anna", Role.CUSTOMER), make("Boris", Role.STAFF), make("Carla", Role.CUSTOMER)
    User.objects.filter(pk=boris.pk).update(is_active=False, token_version=7, last_login=NOW)
    for name in ("spring", "summer"):
        create_api_key(user=anna, name=name, now=NOW)
    return [anna, boris, carla]


def names(path: str, query: dict[str, Any] | None = None) -> list[str]:
    answer = Client().get(path, query or {})
    assert answer.status_code == 200, answer.content
    return [row["name"] for row in answer.json()]


def refused(path: str, query: dict[str, Any]) -> dict[str, list[str]]:
    answer = Client().get(path, query)
    assert answer.status_code == 422, answer.content
    return dict(answer.json()["errors"])


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["Anna", "Boris", "Carla"]),
        ({"search": ""}, ["Anna", "Boris", "Carla"]),
        ({"search": ";;:;name:;name: "}, ["Anna", "Boris", "Carla"]),
        ({"search": "name:nn"}, ["Anna"]),
        ({"search": " name : NN "}, ["Anna"]),
        ({"search": "name:%"}, []),
        ({"search": "name:anna;role:STAFF"}, ["Anna", "Boris"]),
        ({"search": "name:anna;role:STAFF", "searchJoin": "or"}, ["Anna", "Boris"]),
        ({"search": "name:anna;role:STAFF", "searchJoin": "and"}, []),
        ({"search": "name:a;role:CUSTOMER", "searchJoin": "AND"}, ["Anna", "Carla"]),
        ({"search": "role:CUST"}, []),
        ({"search": "ann"}, ["Anna"]),
        ({"search": "ann;boris"}, ["Anna", "Boris"]),
        ({"search": "a;role:CUSTOMER", "searchJoin": "and"}, ["Anna", "Carla"]),
        ({"search": "version:1,9"}, ["Boris"]),
        ({"search": "version:7,"}, ["Boris"]),
        ({"search": "version:,6"}, ["Anna", "Carla"]),
        ({"search": "version:7", "searchFields": "version:between"}, ["Boris"]),
        ({"search": "version:1,2,3"}, []),
        ({"search": "version:1,x"}, []),
        ({"search": "role:STAFF,CUSTOMER", "searchFields": "role:in"}, ["Anna", "Boris", "Carla"]),
        ({"search": "version:7,x", "searchFields": "version:in"}, ["Boris"]),
        ({"search": "name:anna", "searchFields": "name"}, ["Anna"]),
        ({"search": "role:CUST", "searchFields": "role:like"}, ["Anna", "Carla"]),
        ({"search": "name:Ann", "searchFields": "name:="}, []),
        ({"search": "name:Anna", "searchFields": "name:=;unknown:like"}, ["Anna"]),
        ({"search": "version:7", "searchFields": "version:like"}, ["Boris"]),
        ({"search": "active:0"}, ["Boris"]),
        ({"search": "active:True"}, ["Anna", "Carla"]),
        ({"search": "active:perhaps"}, []),
        ({"search": "api_keys.name:s"}, ["Anna"]),
        ({"search": "api_keys.name:spring;api_keys.name:summer", "searchJoin": "and"}, ["Anna"]),
    ],
)
def test_a_search_returns_the_matching_rows(people: list[User], query: dict[str, str], found: list[str]):
    assert names("/users", query) == found


@pytest.mark.parametrize(
    "name", ["password", "token_version", "email", "name__icontains", "api_keys.secret_hash", "pk"]
)
def test_c2_a_search_ignores_names_outside_the_allow_list(people: list[User], name: str):
    assert names("/users", {"search": f"{name}:x"}) == ["Anna", "Boris", "Carla"]
    assert names("/users", {"search": f"{name}:x;name:carla", "searchJoin": "and"}) == ["Carla"]


@pytest.mark.parametrize("value", ["x", "1.0", "٣", "1_0", str(2**63), "-" + str(2**64), "9" * 900, "\x00", "1\x00"])
def test_i7_a_value_that_is_not_a_number_matches_no_row_of_a_number_column(people: list[User], value: str):
    assert names("/users", {"search": f"id:{value}"}) == []
    assert names("/users", {"search": f"id:{value};name:anna"}) == ["Anna"]


def test_i2_a_nul_in_a_search_matches_no_row(people: list[User]):
    assert names("/users", {"search": "name:an\x00na"}) == []
    assert names("/users", {"search": "na\x00me:anna"}) == ["Anna", "Boris", "Carla"]


def test_a_search_of_any_length_gets_a_response(people: list[User]):
    assert names("/users", {"search": "name:a;" * 50}) == ["Anna", "Carla"]
    assert refused("/users", {"search": "name:a;" * 51}) == {"search": ["Send at most 50 terms."]}
    assert names("/users", {"search": "name:" + "z" * (MAX_SEARCH_LENGTH - 5)}) == []
    assert refused("/users", {"search": "z" * (MAX_SEARCH_LENGTH + 1)}) == {"search": ["Send at most 1000 characters."]}


def test_an_unknown_join_or_comparison_is_refused(people: list[User]):
    assert refused("/users", {"search": "name:a", "searchJoin": "xor"}) == {"searchJoin": ["Send and, or or."]}
    refusal = {"searchFields": ["Compare by like, =, in or between."]}
    assert refused("/users", {"searchFields": "name:near"}) == refusal


def test_a_column_of_an_unsearchable_type_is_a_configuration_error():
    with pytest.raises(ImproperlyConfigured):
        search_column(User, "created_at")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"orderBy": "name"}, ["Anna", "Boris", "Carla"]),
        ({"orderBy": "name", "sortedBy": "desc"}, ["Carla", "Boris", "Anna"]),
        ({"orderBy": "name", "sortedBy": "DESC"}, ["Carla", "Boris", "Anna"]),
        ({"orderBy": "last_login"}, ["Boris", "Anna", "Carla"]),
        ({"orderBy": "last_login", "sortedBy": "desc"}, ["Boris", "Carla", "Anna"]),
        ({"orderBy": ""}, ["Anna", "Boris", "Carla"]),
    ],
)
def test_rows_are_in_the_requested_order(people: list[User], query: dict[str, str], found: list[str]):
    assert names("/users", query) == found


@pytest.mark.parametrize("name", ["password", "-name", "name;id", "user__password", "\x00", "?"])
def test_c2_ordering_by_a_name_outside_the_allow_list_changes_nothing(people: list[User], name: str):
    assert names("/users", {"orderBy": name, "sortedBy": "desc"}) == ["Anna", "Boris", "Carla"]
    assert names("/keys", {"orderBy": "name", "language": "spring"}) == ["spring"]


def test_an_unknown_direction_is_refused(people: list[User]):
    assert refused("/users", {"orderBy": "name", "sortedBy": "up"}) == {"sortedBy": ["Send asc or desc."]}


def test_relations_appear_only_when_requested(people: list[User]):
    anna = people[0]
    keys = [{"name": "spring"}, {"name": "summer"}]

    assert Client().get("/users").json()[0] == {"id": anna.pk, "name": "Anna"}
    assert Client().get("/users", {"with": ""}).json()[0] == {"id": anna.pk, "name": "Anna"}
    assert Client().get("/users", {"with": "api_keys"}).json()[0] == {"id": anna.pk, "name": "Anna", "api_keys": keys}
    assert Client().get("/plain").json()[0] == {"id": anna.pk, "name": "Anna"}


def test_a_single_object_has_relations_too(people: list[User]):
    anna = people[0]

    assert "api_keys" not in Client().get(f"/users/{anna.pk}").json()
    assert Client().get(f"/users/{anna.pk}", {"with": "api_keys", "search": "name:boris"}).json()["api_keys"] == [
        {"name": "spring"},
        {"name": "summer"},
    ]


def test_nested_relations_appear_only_when_named(people: list[User]):
    def first(relations: str) -> Any:
        return Client().get("/keys", {"with": relations, "language": "spring"}).json()[0]

    assert "api_keys" not in first("user")["user"]
    for relations in ("user.api_keys", " user ; user.api_keys;"):
        assert first(relations)["user"]["api_keys"] == [{"name": "summer"}, {"name": "spring"}]


@pytest.mark.parametrize("relation", ["password", "api_keys__user", "\x00", ".", "secret." * 30, "id", "name"])
def test_c2_relations_outside_the_allow_list_are_ignored(people: list[User], relation: str):
    anna = {"id": people[0].pk, "name": "Anna"}
    assert Client().get("/users", {"with": relation}).json()[0] == anna
    assert Client().get("/users", {"with": f"{relation};api_keys.{relation}"}).json()[0] == anna | {
        "api_keys": [{"name": "spring"}, {"name": "summer"}]
    }


def test_a_loaded_relation_is_loaded_once_for_all_rows_and_knows_the_user(people: list[User], monkeypatch: Any):
    calls: list[tuple[list[Any], Any]] = []
    monkeypatch.setitem(UserFilters.relations, "rank", LoadedRelation(lambda rows, user: _rank(calls, rows, user)))

    listed = Client().get("/users", {"with": "rank"}).json()

    assert [row["rank"] for row in listed] == [0, 1, None]
    assert [([user.name for user in rows], user) for rows, user in calls] == [(["Anna", "Boris", "Carla"], None)]
    assert Client().get(f"/users/{people[0].pk}", {"with": "rank"}).json()["rank"] == 0
    assert len(calls) == 2
    assert "rank" not in Client().get("/users").json()[0]


def _rank(calls: list[tuple[list[Any], Any]], rows: Any, user: Any) -> None:
    calls.append((list(rows), user))
    for rank, row in enumerate(rows):
        row.rank = rank if rank < 2 else None


def test_a_long_list_of_relations_is_refused(people: list[User]):
    assert refused("/users", {"with": "api_keys;" * 1000}) == {"with": ["Send at most 500 characters."]}


@pytest.mark.parametrize(
    "path", ["/users?with=api_keys", "/keys?with=user.api_keys&language=key", "/pages?with=api_keys"]
)
def test_c7_a_list_costs_the_same_queries_for_ten_and_for_a_hundred_rows(people: list[User], path: str):
    def queries_for(rows: int) -> int:
        have = ApiKey.objects.filter(name="key").count()
        ApiKey.objects.bulk_create(
            ApiKey(user=people[0], name="key", key_id=f"{number:016x}", secret_hash="", created_at=NOW)
            for number in range(have, rows)
        )
        with CaptureQueriesContext(connection) as queries:
            assert Client().get(path).status_code == 200
        return len(queries)

    assert queries_for(10) == queries_for(100) <= 3


def test_the_default_language_is_english(people: list[User]):
    for name in ("en", "de"):
        create_api_key(user=people[2], name=name, now=NOW)

    assert names("/keys") == ["en"]
    assert names("/keys", {"language": ""}) == ["en"]
    assert names("/keys", {"language": "de"}) == ["de"]
    assert names("/keys", {"language": "tlh"}) == []
    assert list(refused("/keys", {"language": "d\x00e"})) == ["language"]
    assert list(refused("/keys", {"language": "e" * 17})) == ["language"]


def test_an_integer_filter_accepts_integers_only(people: list[User]):
    assert names("/users", {"version": "7"}) == ["Boris"]
    assert names("/users", {"version": "-7"}) == []
    assert names("/users", {"version": ""}) == ["Anna", "Boris", "Carla"]
    for value in ("x", "7.0", "\u0667", "1e1", str(2**63), "9" * 5000, "7\x00"):
        assert refused("/users", {"version": value}) == {"version": ["Send a whole number."]}


def test_i4_a_search_has_at_most_50_terms(people: list[User]):
    assert names("/users", {"search": ";".join(["nn"] * 50)}) == ["Anna"]
    assert refused("/users", {"search": ";".join(["nn"] * 51)}) == {"search": ["Send at most 50 terms."]}
