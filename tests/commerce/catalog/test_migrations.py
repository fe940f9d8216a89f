"""Migration of variations to combinations of attribute values, and its reversal."""

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import transaction
from django.utils import timezone

from commerce.attributes.services import create_attribute
from commerce.catalog.models import Category, Product, Tag, Variation
from commerce.catalog.variations import change_variations, set_attribute_values
from commerce.shops.models import Shop
from tests.commerce.catalog.factories import make_variable_product

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def _latest_migration() -> Iterator[None]:
    yield
    call_command("migrate", verbosity=0)


@pytest.mark.usefixtures("_latest_migration")
def test_d8_variations_keep_ids_stock_and_options_when_the_migration_is_reversed_and_applied_again(shop: Shop):
    shirt, now = make_variable_product(shop, S=3, L=4), timezone.now()
    size = create_attribute(actor=shop.owner, shop_id=shop.pk, name="Size", values=[{"value": "S"}], now=now)
    with transaction.atomic():
        set_attribute_values(product=shirt, value_ids=[size.values.get().pk])
    small = shirt.variations.get(title="S")
    item = {"id": small.pk, "options": [{"name": "Size", "value": "S"}]}
    change_variations(product=shirt, upsert=[item], removed_ids=[], now=now)
    kitchen = Category.objects.create(type=shirt.type, name="Kitchen", slug="kitchen")
    Category.objects.create(type=shirt.type, name="Pots", slug="pots", parent=kitchen, depth=1)
    shirt.tags.add(Tag.objects.create(name="New in", slug="new-in"))
    columns = ("id", "product_id", "title", "options", "price", "quantity")
    before = list(Variation.objects.order_by("pk").values_list(*columns))

    call_command("migrate", "commerce_catalog", "0005", verbosity=0)
    call_command("migrate", "commerce_catalog", verbosity=0)

    assert list(Variation.objects.order_by("pk").values_list(*columns)) == before
    assert Variation.objects.get(pk=small.pk).options == [{"name": "Size", "value": "S"}]
    assert list(Category.objects.order_by("pk").values_list("slug", "parent", "depth")) == [
        ("kitchen", None, 0), ("pots", None, 0),
    ]  # fmt: skip
    shirt = Product.objects.get(pk=shirt.pk)
    assert (shirt.quantity, shirt.attribute_values.count(), shirt.tags.count()) == (7, 0, 0)
    with transaction.atomic():
        set_attribute_values(product=shirt, value_ids=[size.values.get().pk])
    assert shirt.attribute_values.get().value == "S"
