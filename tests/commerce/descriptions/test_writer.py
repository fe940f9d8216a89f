"""Tests of the keywords that the description writer proposes."""

import pytest

from commerce.attributes.models import AttributeValue
from commerce.catalog.models import Product, ProductValue
from commerce.descriptions.writer import MAX_PROPOSED_KEYWORDS, propose_keywords
from commerce.shops.models import Shop
from tests.commerce.attributes.conftest import make_attribute
from tests.commerce.catalog.factories import make_product

pytestmark = pytest.mark.django_db


def add_values(product: Product, attribute: str, *values: str, language: str = "en") -> None:
    items = [{"value": value, "meta": ""} for value in values]
    made = make_attribute(product.shop, attribute, values=items, language=language)
    ProductValue.objects.bulk_create(ProductValue(product=product, value=one) for one in made.values.order_by("pk"))


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop)


def test_keywords_are_the_values_of_the_products_attributes(product: Product):
    add_values(product, "Color", "Dark blue", "Red")
    add_values(product, "Size", "M", "XL")
    add_values(product, "Shoe Size", "38")

    assert propose_keywords(product) == ["Dark blue", "Red", "size M", "size XL", "shoe size 38"]
    assert AttributeValue.objects.count() == 5


def test_names_of_attributes_keep_their_case_in_other_languages(shop: Shop):
    product = make_product(shop, language="de")
    add_values(product, "Gr\u00f6\u00dfe", "M", language="de")

    assert propose_keywords(product) == ["Gr\u00f6\u00dfe M"]


@pytest.mark.parametrize(("unit", "keywords"), [("set of 4", ["set of 4"]), ("500 g", ["500 g"]), ("piece", [])])
def test_a_unit_is_proposed_if_it_is_an_amount(shop: Shop, unit: str, keywords: list[str]):
    assert propose_keywords(make_product(shop, unit=unit)) == keywords


def test_what_the_name_says_and_what_a_keyword_cannot_be_is_not_proposed(product: Product):
    add_values(product, "Material", "velmo", "brass, oak", "x" * 65)

    assert propose_keywords(product) == []


def test_a_product_with_many_values_gets_a_few_keywords(product: Product):
    add_values(product, "Color", *(f"shade {number}" for number in range(20)))

    assert len(propose_keywords(product)) == MAX_PROPOSED_KEYWORDS
