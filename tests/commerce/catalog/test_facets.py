"""GET /api/products?facets=1: numbers of products by choice, each as if its own filter were off."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from commerce.attributes.models import AttributeValue
from commerce.attributes.services import create_attribute
from commerce.catalog.facets import count_facets
from commerce.catalog.models import Category, Product, ProductType, ProductValue
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import ApiClient

PATH = "/api/products"


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def facets(client_of: ApiClient, user: User | None = None, **query: Any) -> Any:
    answer = client_of(user).get(PATH, {"facets": "1", **query})
    assert answer.status_code == 200, answer.content
    return answer.json()["facets"]


def counts(facet: list[dict[str, Any]], name: str) -> dict[Any, int]:
    return {entry[name]: entry["count"] for entry in facet}


def value_counts(found: Any) -> dict[str, int]:
    return {value["value"]: value["count"] for attribute in found["attributes"] for value in attribute["values"]}


@pytest.fixture
def values(shop: Shop) -> dict[str, AttributeValue]:
    for name, texts in (("Size", ["S", "L"]), ("Color", ["Red", "Blue"])):
        items = [{"value": text} for text in texts]
        create_attribute(actor=shop.owner, shop_id=shop.pk, name=name, values=items, now=timezone.now())
    return {value.value: value for value in AttributeValue.objects.all()}


@pytest.fixture
def products(shop: Shop, values: dict[str, AttributeValue]) -> dict[str, Product]:
    """Five products of two types and two categories, one of them a draft."""
    home = ProductType.objects.create(name="Home", slug="home")
    garden = ProductType.objects.create(name="Garden", slug="garden")
    lamps = Category.objects.create(name="Lamps", slug="lamps", type=home)
    pots = Category.objects.create(name="Pots", slug="pots", type=garden)
    made = {}
    for slug, type_, category, price, quantity, stars, chosen in (
        ("desk-lamp", home, lamps, 900, 5, 5, ["S", "Red"]),
        ("floor-lamp", home, lamps, 4900, 0, 4, ["L", "Red"]),
        ("pot", garden, pots, 1500, 3, 2, ["L", "Blue"]),
        ("rake", garden, None, 120_000, 1, 0, []),
        ("draft", home, lamps, 900, 9, 5, ["S"]),
    ):
        status = Product.Status.DRAFT if slug == "draft" else Product.Status.PUBLISH
        rating = {"rating_sum": stars, "rating_count": int(stars > 0)}
        product = make_product(shop, slug, type=type_, price=price, quantity=quantity, status=status, **rating)
        product.categories.set([category] if category else [])
        ProductValue.objects.bulk_create(ProductValue(product=product, value=values[text]) for text in chosen)
        made[slug] = product
    return made


def test_all_published_products_are_counted_by_every_choice(client_of: ApiClient, products: dict[str, Product]):
    found = facets(client_of)

    assert counts(found["types"], "slug") == {"home": 2, "garden": 2}
    assert counts(found["categories"], "slug") == {"lamps": 2, "pots": 1}
    assert value_counts(found) == {"S": 1, "L": 2, "Red": 2, "Blue": 1}
    assert {attribute["name"] for attribute in found["attributes"]} == {"Size", "Color"}
    assert found["prices"] == [
        {"from": 0.0, "to": 10.0, "currency": "EUR", "count": 1},
        {"from": 10.0, "to": 25.0, "currency": "EUR", "count": 1},
        {"from": 25.0, "to": 50.0, "currency": "EUR", "count": 1},
        {"from": 1000.0, "to": None, "currency": "EUR", "count": 1},
    ]
    assert counts(found["ratings"], "from") == {4: 2, 3: 2, 2: 3, 1: 3}
    assert counts(found["in_stock"], "value") == {True: 3, False: 1}


def test_each_facet_is_counted_as_if_its_own_filter_were_off(
    client_of: ApiClient, products: dict[str, Product], values: dict[str, AttributeValue]
):
    home = products["desk-lamp"].type_id

    found = facets(client_of, type_id=home, in_stock="1")

    assert counts(found["types"], "slug") == {"home": 1, "garden": 2}  # in stock
    assert counts(found["in_stock"], "value") == {True: 1, False: 1}  # of home
    assert counts(found["categories"], "slug") == {"lamps": 1}
    assert value_counts(found) == {"S": 1, "Red": 1}
    assert counts(facets(client_of, price_from="10", price_to="50")["prices"], "from") == {0: 1, 10: 1, 25: 1, 1000: 1}
    assert counts(facets(client_of, rating_from="4")["ratings"], "from") == {4: 2, 3: 2, 2: 3, 1: 3}
    lamps = Category.objects.get(slug="lamps").pk
    assert counts(facets(client_of, category_id=lamps)["categories"], "slug") == {"lamps": 2, "pots": 1}


def test_values_of_a_chosen_attribute_are_counted_without_it_and_with_all_others(
    client_of: ApiClient, products: dict[str, Product], values: dict[str, AttributeValue]
):
    one = facets(client_of, attribute_value_id=values["L"].pk)
    assert value_counts(one) == {"S": 1, "L": 2, "Red": 1, "Blue": 1}
    assert counts(one["types"], "slug") == {"home": 1, "garden": 1}

    two = facets(client_of, attribute_value_id=f"{values['L'].pk},{values['Red'].pk}")
    assert value_counts(two) == {"S": 1, "L": 1, "Red": 1, "Blue": 1}

    both_sizes = facets(client_of, attribute_value_id=f"{values['L'].pk},{values['S'].pk}")
    assert counts(both_sizes["types"], "slug") == {"home": 2, "garden": 1}


def test_terms_of_a_search_are_filters_of_facets_too(client_of: ApiClient, products: dict[str, Product]):
    both = facets(client_of, search="type.slug:home;categories.slug:lamps", searchJoin="and")
    assert counts(both["types"], "slug") == {"home": 2}
    assert counts(both["categories"], "slug") == {"lamps": 2}

    one = facets(client_of, search="type.slug:garden")
    assert counts(one["types"], "slug") == {"home": 2, "garden": 2}
    assert counts(one["categories"], "slug") == {"pots": 1}

    either = facets(client_of, search="type.slug:garden;slug:desk-lamp")  # one condition, which stays whole
    assert counts(either["types"], "slug") == {"home": 1, "garden": 2}


def test_the_list_has_the_products_that_the_counts_promise(
    client_of: ApiClient, products: dict[str, Product], values: dict[str, AttributeValue]
):
    def slugs(**query: Any) -> set[str]:
        return {row["slug"] for row in client_of(None).get(PATH, query).json()["data"]}

    assert slugs() == {"desk-lamp", "floor-lamp", "pot", "rake"}
    assert slugs(price_from="10", price_to="50") == {"floor-lamp", "pot"}
    assert slugs(price_to="15") == {"desk-lamp"}
    assert slugs(rating_from="4") == {"desk-lamp", "floor-lamp"}
    assert (slugs(in_stock="0"), slugs(in_stock="true")) == ({"floor-lamp"}, {"desk-lamp", "pot", "rake"})
    assert slugs(attribute_value_id=values["Red"].pk) == {"desk-lamp", "floor-lamp"}
    assert slugs(attribute_value_id=2**62) == set()
    Product.objects.filter(slug="pot").update(currency="JPY")
    assert slugs(price_from="0") == {"desk-lamp", "floor-lamp", "rake"}


def test_unfiltered_counts_are_kept_until_a_product_changes(
    client_of: ApiClient, owner: User, products: dict[str, Product], django_assert_max_num_queries: Any
):
    before = facets(client_of)
    with django_assert_max_num_queries(10):
        assert facets(client_of) == before

    client_of(owner).put(f"{PATH}/{products['draft'].pk}", {"status": "publish"}, content_type="application/json")
    assert counts(facets(client_of)["types"], "slug") == {"home": 3, "garden": 2}
    client_of(owner).delete(f"{PATH}/{products['rake'].pk}")
    assert counts(facets(client_of)["types"], "slug") == {"home": 3, "garden": 1}


@pytest.mark.parametrize(
    "query",
    [
        {}, {"type_id": "{type}"}, {"category_id": "{category}"}, {"attribute_value_id": "{L}"},
        {"attribute_value_id": "{L},{Red}"}, {"attribute_value_id": "{L},{S}", "in_stock": "1"}, {"price_from": "10"},
        {"price_from": "10", "price_to": "49"}, {"rating_from": "5"}, {"in_stock": "0"}, {"shop_id": "{shop}"},
        {"language": "de"}, {"type_id": "{type}", "in_stock": "1", "search": "name:p"}, {"search": "type.slug:home"},
        {"type_id": str(2**62)}, {"attribute_value_id": str(2**62)},
        {"search": "type.slug:home; categories.slug : lamps ", "searchJoin": "and"},
        {"search": "type.slug:home;name:p", "searchJoin": "AND"}, {"search": "type.slug:garden;categories.slug:lamps"},
        {"search": "categories.slug:lamps;type.slug:nowhere;;x:1", "searchJoin": "and", "in_stock": "1"},
        {"search": "type.slug:hom", "searchFields": "type.slug:like"},
        {"search": "lamp;type.slug:home", "searchJoin": "and"},
    ],
)  # fmt: skip
def test_counts_in_memory_are_those_of_the_database(
    query: dict[str, str], products: dict[str, Product], values: dict[str, AttributeValue], shop: Shop
):
    Product.objects.filter(slug="pot").update(currency="JPY")
    ids = {name: value.pk for name, value in values.items()} | {"shop": shop.pk, "type": products["pot"].type_id}
    category = Category.objects.get(slug="pots").pk
    query = {name: value.format(**ids, category=category) for name, value in query.items()}
    for _ in range(2):
        counted = [count_facets(Product.objects.public(), query, is_public=is_public) for is_public in (False, True)]
        assert counted[0] == counted[1]
        Product.objects.filter(slug="desk-lamp").update(price=6000, updated_at=timezone.now())


def test_a_shop_sees_its_drafts_in_the_counts_of_its_own_products_only(
    client_of: ApiClient, shop: Shop, owner: User, products: dict[str, Product]
):
    assert counts(facets(client_of, owner, shop_id=shop.pk)["types"], "slug") == {"home": 3, "garden": 2}
    assert counts(facets(client_of, shop_id=shop.pk)["types"], "slug") == {"home": 2, "garden": 2}
    assert counts(facets(client_of, owner)["types"], "slug") == {"home": 2, "garden": 2}


def test_any_queryset_of_products_can_be_counted(products: dict[str, Product]):
    chosen = Product.objects.public().filter(slug__in=["pot", "rake"])

    found = count_facets(chosen, {"in_stock": "1"})

    assert counts(found["types"], "slug") == {"garden": 2}
    assert counts(found["prices"], "from") == {10: 1, 1000: 1}


def test_facets_are_in_the_page_on_request_only(client_of: ApiClient, products: dict[str, Product]):
    assert "facets" not in client_of(None).get(PATH).json()
    assert "facets" not in client_of(None).get(PATH, {"facets": "0"}).json()
    page = client_of(None).get(PATH, {"facets": "1", "limit": "1", "page": "2"}).json()
    assert (page["total"], len(page["data"])) == (4, 1)
    assert counts(page["facets"]["types"], "slug") == {"home": 2, "garden": 2}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"facets": "maybe"}, "facets"),
        ({"attribute_value_id": "red"}, "attribute_value_id"),
        ({"attribute_value_id": ",".join(["1"] * 51)}, "attribute_value_id"),
        ({"attribute_value_id": "9" * 40}, "attribute_value_id"),
        ({"price_from": "-1"}, "price_from"),
        ({"price_from": "12.345"}, "price_from"),
        ({"price_to": "1e30"}, "price_to"),
        ({"price_to": "nan"}, "price_to"),
        ({"rating_from": "6"}, "rating_from"),
        ({"rating_from": "good"}, "rating_from"),
        ({"in_stock": "perhaps"}, "in_stock"),
        ({"type_id": "home"}, "type_id"),
    ],
)
def test_i4_a_bad_choice_is_422_that_names_the_parameter(
    client_of: ApiClient, products: dict[str, Product], query: dict[str, str], field: str
):
    for extra in ({}, {"facets": "1"}):
        answer = client_of(None).get(PATH, {**extra, **query})
        assert (answer.status_code, set(answer.json()["errors"])) == (422, {field})


def test_c7_facets_take_as_many_queries_for_many_products_as_for_few(
    client_of: ApiClient, shop: Shop, products: dict[str, Product], django_assert_max_num_queries: Any
):
    def cost() -> int:
        with django_assert_max_num_queries(25) as queries:
            facets(client_of, in_stock="1")
        return len(queries)

    few = cost()
    type_id = products["pot"].type_id
    Product.objects.bulk_create(
        Product(shop=shop, type_id=type_id, name="x", slug=f"x-{n}", price=1, status="publish") for n in range(300)
    )
    assert cost() <= few + 1


def test_a_bare_word_that_is_the_name_of_a_search_field_stays_a_condition_of_facets(
    client_of: ApiClient, products: dict[str, Product]
):
    found = facets(client_of, search="quantity;name:lamp", searchJoin="and")
    assert counts(found["in_stock"], "value") == {}


def test_i4_facets_take_the_values_of_at_most_ten_attributes(client_of: ApiClient, shop: Shop):
    for number in range(11):
        items = [{"value": "Yes"}]
        create_attribute(actor=shop.owner, shop_id=shop.pk, name=f"A{number}", values=items, now=timezone.now())
    ids = [str(pk) for pk in AttributeValue.objects.values_list("pk", flat=True)]
    assert facets(client_of, attribute_value_id=",".join(ids[:10]))["attributes"] == []
    answer = client_of(None).get(PATH, {"facets": "1", "attribute_value_id": ",".join(ids)})
    assert answer.status_code == 422
    assert answer.json()["errors"] == {"attribute_value_id": ["With facets, send values of at most 10 attributes."]}
