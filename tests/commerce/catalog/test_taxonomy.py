"""GET, POST, PUT, DELETE /api/types and /api/categories."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from commerce.catalog.models import Category, ProductType
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import ApiClient


@pytest.fixture
def home(db: None) -> ProductType:
    return ProductType.objects.create(name="Home", slug="home")


def send(client_of: ApiClient, user: User | None, method: str, path: str, sent: Any = None) -> Any:
    return getattr(client_of(user), method)(path, sent, content_type="application/json")


def test_types_are_a_bare_array_in_one_language(client_of: ApiClient, home: ProductType):
    ProductType.objects.create(name="Zuhause", slug="zuhause", language="de")

    assert [row["slug"] for row in client_of(None).get("/api/types").json()] == ["home"]
    assert [row["slug"] for row in client_of(None).get("/api/types", {"language": "de"}).json()] == ["zuhause"]
    assert client_of(None).get("/api/types/home").json()["id"] == home.pk


def test_categories_are_paged_and_include_their_type_on_request(client_of: ApiClient, home: ProductType):
    category = Category.objects.create(type=home, name="Lamps", slug="lamps")

    page = client_of(None).get("/api/categories", {"with": "type", "type_id": str(home.pk)}).json()

    assert (page["total"], page["per_page"]) == (1, 15)
    assert page["data"][0]["type"] == {"id": home.pk, "name": "Home", "slug": "home"}
    assert "type" not in client_of(None).get(f"/api/categories/{category.pk}").json()


@pytest.mark.parametrize("path", ["/api/types", "/api/categories"])
def test_only_super_admins_write_types_and_categories(
    client_of: ApiClient, home: ProductType, path: str, customer: User, owner: User, staff: User, admin: User
):
    sent = {"name": "Lamps", "type_id": home.pk}

    for user, status in ((None, 401), (customer, 403), (owner, 403), (staff, 403), (admin, 201)):
        answer = send(client_of, user, "post", path, sent)
        assert answer.status_code == status, answer.content
    path = f"{path}/{answer.json()['id']}"
    for user, status in ((None, 401), (owner, 403), (admin, 200)):
        assert send(client_of, user, "put", path, {"name": "Lights"}).status_code == status
        assert send(client_of, user, "delete", path).status_code == status
    assert send(client_of, admin, "delete", path).status_code == 404


def test_a_name_changes_and_its_slug_stays(client_of: ApiClient, home: ProductType, admin: User):
    record = send(client_of, admin, "put", "/api/types/home", {"name": "House", "slug": "x", "language": "de"}).json()

    assert (record["name"], record["slug"], record["language"]) == ("House", "home", "en")


def test_the_same_name_in_one_language_gets_another_slug(client_of: ApiClient, home: ProductType, admin: User):
    slugs = [
        send(client_of, admin, "post", "/api/types", {"name": "Home", "language": language}).json()["slug"]
        for language in ("en", "en", "de")
    ]

    assert slugs == ["home-2", "home-3", "home"]


def test_a_category_of_an_unknown_type_is_422(client_of: ApiClient, admin: User):
    answer = send(client_of, admin, "post", "/api/categories", {"name": "Lamps", "type_id": 2**62})

    assert (answer.status_code, set(answer.json()["errors"])) == (422, {"type_id"})


def test_types_and_categories_in_use_are_not_deleted(client_of: ApiClient, shop: Shop, admin: User):
    lamp = make_product(shop)
    lamp.categories.add(Category.objects.create(type=lamp.type, name="Lamps", slug="lamps"))

    assert send(client_of, admin, "delete", "/api/categories/lamps").status_code == 409
    assert send(client_of, admin, "delete", "/api/types/home").status_code == 409
    assert Category.objects.count() == ProductType.objects.count() == 1


@pytest.mark.parametrize("path", ["/api/types", "/api/categories"])
@pytest.mark.parametrize("value", ["-1", "0", "1e9", "abc", "\u0661"])
def test_c7_an_invalid_limit_is_422(client_of: ApiClient, home: ProductType, path: str, value: str):
    assert client_of(None).get(path, {"limit": value}).status_code == 422


@pytest.mark.parametrize("path", ["/api/types", "/api/categories", "/api/shops"])
@pytest.mark.parametrize("key", ["9223372036854775808", "0", "9" * 40, "\u0661", "-1"])
def test_i7_an_unknown_id_is_404(client_of: ApiClient, home: ProductType, path: str, key: str):
    assert client_of(None).get(f"{path}/{key}").status_code == 404


def test_a_list_costs_the_same_for_ten_categories_and_for_a_thousand(
    client_of: ApiClient, home: ProductType, django_assert_max_num_queries: DjangoAssertNumQueries
):
    client, counts = client_of(None), []
    for number in (10, 1000):
        have = Category.objects.count()
        Category.objects.bulk_create(Category(type=home, name="x", slug=f"x-{n}") for n in range(have, number))
        with django_assert_max_num_queries(8) as queries:
            assert client.get("/api/categories", {"with": "type", "limit": "100"}).status_code == 200
        counts.append(len(queries))
    assert counts[1] - counts[0] <= 1
