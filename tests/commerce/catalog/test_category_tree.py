"""Categories as a tree, and tags."""

from typing import Any

import pytest
from django.test import Client

from commerce.catalog.models import Category, Product, ProductType, Tag
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import ApiClient

PATH = "/api/categories"


def send(client_of: ApiClient, user: User | None, method: str, path: str, sent: Any = None) -> Any:
    return getattr(client_of(user), method)(path, sent, content_type="application/json")


@pytest.fixture
def home(db: None) -> ProductType:
    return ProductType.objects.create(name="Home", slug="home")


@pytest.fixture
def tree(client_of: ApiClient, home: ProductType, admin: User) -> dict[str, int]:
    """Return the ids of: kitchen > pots > iron pots, and lighting."""
    ids: dict[str, int] = {}
    for slug, parent in (("kitchen", None), ("pots", "kitchen"), ("iron-pots", "pots"), ("lighting", None)):
        sent = {"name": slug, "type_id": home.pk, "parent": ids.get(parent or "")}
        answer = send(client_of, admin, "post", PATH, sent)
        assert answer.status_code == 201, answer.content
        ids[slug] = answer.json()["id"]
    return ids


def test_the_top_of_the_tree_has_all_categories_below(client_of: ApiClient, tree: dict[str, int]):
    page = client_of(None).get(PATH, {"parent": "null"}).json()

    assert [(row["slug"], row["depth"], row["parent_id"]) for row in page["data"]] == [
        ("kitchen", 0, None), ("lighting", 0, None),
    ]  # fmt: skip
    (pots,) = page["data"][0]["children"]
    assert (pots["slug"], pots["depth"], pots["parent_id"]) == ("pots", 1, tree["kitchen"])
    assert [(row["slug"], row["depth"], row["children"]) for row in pots["children"]] == [("iron-pots", 2, [])]


def test_the_categories_below_one_are_listed_and_show_it_on_request(client_of: ApiClient, tree: dict[str, int]):
    page = client_of(None).get(PATH, {"parent": str(tree["kitchen"]), "with": "parent"}).json()

    assert [(row["slug"], row["parent"]["slug"]) for row in page["data"]] == [("pots", "kitchen")]
    assert client_of(None).get(PATH).json()["total"] == 4
    assert "parent" not in client_of(None).get(f"{PATH}/pots").json()


def test_a_moved_category_takes_all_below_with_it(client_of: ApiClient, admin: User, tree: dict[str, int]):
    answer = send(client_of, admin, "put", f"{PATH}/pots", {"parent_id": tree["lighting"]})
    assert (answer.status_code, answer.json()["depth"]) == (200, 1)
    send(client_of, admin, "put", f"{PATH}/lighting", {"parent": tree["kitchen"]})
    assert dict(Category.objects.values_list("slug", "depth")) == {
        "kitchen": 0, "lighting": 1, "pots": 2, "iron-pots": 3,
    }  # fmt: skip

    send(client_of, admin, "put", f"{PATH}/pots", {"parent": None})
    assert dict(Category.objects.values_list("slug", "depth")) == {
        "kitchen": 0, "lighting": 1, "pots": 0, "iron-pots": 1,
    }  # fmt: skip


def test_a_change_of_name_keeps_the_place(client_of: ApiClient, admin: User, tree: dict[str, int]):
    record = send(client_of, admin, "put", f"{PATH}/pots", {"name": "Pots and pans"}).json()
    assert (record["parent_id"], record["depth"], len(record["children"])) == (tree["kitchen"], 1, 1)


@pytest.mark.parametrize("parent", ["pots", "iron-pots", "unknown", "text", "huge", "other type", "other language"])
def test_i4_a_parent_that_cannot_be_is_422_that_names_the_field(
    client_of: ApiClient, admin: User, home: ProductType, tree: dict[str, int], parent: str
):
    garden = ProductType.objects.create(name="Garden", slug="garden")
    sent: dict[str, Any] = tree | {
        "unknown": 2**62,
        "text": "top",
        "huge": 2**70,
        "other type": Category.objects.create(type=garden, name="Soil", slug="soil").pk,
        "other language": Category.objects.create(type=home, name="Küche", slug="kueche", language="de").pk,
    }

    answer = send(client_of, admin, "put", f"{PATH}/pots", {"parent": sent[parent]})

    assert (answer.status_code, set(answer.json()["errors"])) == (422, {"parent"})
    assert Category.objects.get(slug="pots").parent_id == tree["kitchen"]


def test_the_tree_has_at_most_five_levels(client_of: ApiClient, admin: User, home: ProductType, tree: dict[str, int]):
    below = tree["iron-pots"]
    for depth in (3, 4):
        record = send(client_of, admin, "post", PATH, {"name": "x", "type_id": home.pk, "parent": below}).json()
        assert record["depth"] == depth
        below = record["id"]

    deeper = send(client_of, admin, "post", PATH, {"name": "x", "type_id": home.pk, "parent": below})
    moved = send(client_of, admin, "put", f"{PATH}/kitchen", {"parent": tree["lighting"]})

    assert (deeper.status_code, moved.status_code) == (422, 422)
    assert Category.objects.get(slug="kitchen").parent_id is None


def test_categories_below_keep_a_category_and_its_type(client_of: ApiClient, admin: User, tree: dict[str, int]):
    garden = ProductType.objects.create(name="Garden", slug="garden")

    assert send(client_of, admin, "delete", f"{PATH}/pots").status_code == 409
    answer = send(client_of, admin, "put", f"{PATH}/kitchen", {"type_id": garden.pk})
    assert (answer.status_code, set(answer.json()["errors"])) == (422, {"type_id"})
    assert send(client_of, admin, "delete", f"{PATH}/iron-pots").status_code == 200
    assert Category.objects.filter(slug="kitchen", type__slug="home").exists()


@pytest.mark.parametrize("value", ["top", "-1", "9" * 40])
def test_i4_a_bad_parent_in_the_query_is_422(client_of: ApiClient, tree: dict[str, int], value: str):
    answer = client_of(None).get(PATH, {"parent": value})
    assert (answer.status_code, set(answer.json()["errors"])) == (422, {"parent"})


class TestTags:
    @pytest.fixture
    def tag(self, client_of: ApiClient, admin: User) -> int:
        pk: int = send(client_of, admin, "post", "/api/tags", {"name": "New in"}).json()["id"]
        return pk

    def test_tags_are_pages_and_found_by_slug(self, client_of: ApiClient, tag: int):
        page = client_of(None).get("/api/tags").json()
        assert [(row["id"], row["name"], row["slug"], row["language"]) for row in page["data"]] == [
            (tag, "New in", "new-in", "en")
        ]
        assert client_of(None).get("/api/tags/new-in").json()["id"] == tag

    def test_products_have_tags_and_are_found_by_them(self, client_of: ApiClient, shop: Shop, owner: User, tag: int):
        lamp = make_product(shop, status=Product.Status.PUBLISH)
        make_product(shop, "other", status=Product.Status.PUBLISH)

        record = send(client_of, owner, "put", f"/api/products/{lamp.pk}?with=tags", {"tags": [tag]}).json()

        assert record["tags"] == [{"id": tag, "name": "New in", "slug": "new-in"}]
        for query in ({"tag_id": str(tag)}, {"search": "tags.slug:new-in"}):
            assert [row["id"] for row in client_of(None).get("/api/products", query).json()["data"]] == [lamp.pk]

    def test_i4_an_unknown_tag_is_422_and_changes_nothing(
        self, client_of: ApiClient, shop: Shop, owner: User, tag: int
    ):
        lamp = make_product(shop)
        for sent in ([2**62], ["x"], "new-in", [tag] * 51):
            answer = send(client_of, owner, "put", f"/api/products/{lamp.pk}", {"tags": sent, "name": "Changed"})
            assert answer.status_code == 422
            assert {name.partition(".")[0] for name in answer.json()["errors"]} == {"tags"}
        lamp.refresh_from_db()
        assert (lamp.name, lamp.tags.count()) == ("Velmo lamp", 0)

    def test_products_lose_a_deleted_tag(self, client_of: ApiClient, shop: Shop, admin: User, tag: int):
        lamp = make_product(shop)
        lamp.tags.add(tag)
        assert send(client_of, admin, "delete", "/api/tags/new-in").status_code == 200
        assert (Tag.objects.count(), lamp.tags.count()) == (0, 0)


class TestAdminPages:
    @pytest.fixture
    def page(self, admin: User) -> Client:
        client = Client()
        client.force_login(admin)
        return client

    def test_a_category_moved_in_the_admin_takes_all_below_with_it(
        self, page: Client, home: ProductType, tree: dict[str, int]
    ):
        sent = {"name": "Pots", "slug": "pots", "language": "en", "type": home.pk, "parent": tree["lighting"]}
        path = f"/admin/commerce_catalog/category/{tree['kitchen']}/change/"

        answer = page.post(path, sent | {"name": "Kitchen", "slug": "kitchen"})

        assert answer.status_code == 302, answer.content
        depths = dict(Category.objects.values_list("slug", "depth"))
        assert depths == {"lighting": 0, "kitchen": 1, "pots": 2, "iron-pots": 3}

    def test_the_admin_refuses_a_parent_below_the_category(self, page: Client, home: ProductType, tree: dict[str, int]):
        sent = {"name": "Kitchen", "slug": "kitchen", "language": "en", "type": home.pk, "parent": tree["iron-pots"]}

        answer = page.post(f"/admin/commerce_catalog/category/{tree['kitchen']}/change/", sent)

        assert answer.status_code == 200
        assert b"iron-pots is this category or below it." in answer.content
        assert Category.objects.get(slug="kitchen").parent_id is None
