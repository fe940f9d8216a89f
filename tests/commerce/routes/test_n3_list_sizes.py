"""Row N3: the answers of all lists, with rows as long and as many as the limits allow."""

import ctypes
import gc
import re
from pathlib import Path
from typing import Any

import pytest
from django.db import models
from django.urls import resolve

from commerce.addresses.models import Address
from commerce.attachments.models import Attachment
from commerce.attributes.models import Attribute, AttributeValue
from commerce.catalog.models import Category, Product, ProductType, ProductValue, Tag, Variation
from commerce.catalog.serializers import MAX_CATEGORIES, MAX_DESCRIPTION_LENGTH, MAX_GALLERY_IMAGES, MAX_TAGS
from commerce.catalog.variations import MAX_VALUES, MAX_VARIATIONS
from commerce.descriptions.models import DescriptionDraft
from commerce.moderation.models import AbuseReport, Appeal, Decision, Notice, Sanction
from commerce.orders.models import Refund
from commerce.reviews.models import Question, Review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.lists.pagination import MAX_ARRAY_BYTES
from tests.commerce.routes.scenario import World
from tests.commerce.routes.test_list_costs import LISTS, multiply
from tests.commerce.routes.test_route_matrix import media, only_world, provider, world

__all__ = ["media", "only_world", "provider", "world"]

# On PostgreSQL, sales of a thousand new orders are ranked for minutes until they are analyzed.
pytestmark = [pytest.mark.django_db, pytest.mark.no_database]

MAX_GROWTH_BYTES = 64 * 1024 * 1024
CHARACTER = "\U0001f600"  # four bytes
OPTIONS = [{"name": CHARACTER * 255, "value": CHARACTER * 255} for _ in range(10)]
MAX_TEXT, MAX_ROWS = 2_000, 1_000
PRODUCT_LISTS = [
    "/api/products", "/api/products/search", "/api/products/{product}/similar", "/api/low-stock-products",
    "/api/products-stock", "/api/draft-products",
]  # fmt: skip
# The longest texts that serializers take.
LENGTHS: dict[type[models.Model], dict[str, int]] = {
    User: {"name": 150},
    Shop: {"name": 255, "description": 20_000},
    ProductType: {"name": 255},
    Category: {"name": 255},
    Tag: {"name": 255},
    Attribute: {"name": 255},
    AttributeValue: {"value": 200, "meta": 800},
    Product: {"name": 255, "description": MAX_DESCRIPTION_LENGTH, "unit": 64},
    Variation: {"title": 255, "sku": 64},
    Attachment: {"name": 255, "alt": 500},
    Review: {"comment": 5_000},
    Question: {"question": 5_000, "answer": 5_000},
    Refund: {"reason": MAX_TEXT},
    Address: {"title": 255},
    AbuseReport: {"message": MAX_TEXT},
    Decision: {"note": MAX_TEXT, "reason": MAX_TEXT},
    Notice: {"title": 200, "text": MAX_TEXT},
    Appeal: {"message": MAX_TEXT},
    Sanction: {"reason": MAX_TEXT, "note": MAX_TEXT, "appeal_message": MAX_TEXT},
    DescriptionDraft: {"text": MAX_DESCRIPTION_LENGTH},
}


def lengthen_texts() -> None:
    for model, lengths in LENGTHS.items():
        model._base_manager.update(**{name: CHARACTER * length for name, length in lengths.items()})


def widen_products() -> None:
    """Give a hundred products all that they may have."""
    shop, image = Shop.objects.order_by("pk")[0], Attachment.objects.order_by("pk")[0]
    multiply(Category, MAX_CATEGORIES, slug="shelf-{}".format)
    multiply(Tag, MAX_TAGS, slug="tag-{}".format)
    multiply(Attachment, MAX_GALLERY_IMAGES, key="{:032x}".format)
    newest = list(Product.objects.order_by("-pk").values_list("pk", flat=True)[:100])
    for field, count in (("categories", MAX_CATEGORIES), ("tags", MAX_TAGS), ("gallery", MAX_GALLERY_IMAGES)):
        link = getattr(Product, field).through
        link._default_manager.filter(product__in=newest).delete()
        other = Product._meta.get_field(field).m2m_reverse_field_name() + "_id"
        ids = list(Product._meta.get_field(field).related_model._base_manager.values_list("pk", flat=True)[:count])
        link._default_manager.bulk_create(link(**{"product_id": pk, other: one}) for pk in newest for one in ids)
    now = shop.created_at
    attribute = Attribute.objects.create(shop=shop, name="A", slug="wide", created_at=now, updated_at=now)
    values = AttributeValue.objects.bulk_create(
        AttributeValue(attribute=attribute, value="v", slug=f"v{number}") for number in range(MAX_VALUES)
    )
    ProductValue.objects.bulk_create(ProductValue(product_id=pk, value=value) for pk in newest for value in values)
    Variation.objects.bulk_create(
        Variation(product_id=pk, title=f"{number}", price=100, image=image)
        for pk in newest
        for number in range(MAX_VARIATIONS)
    )
    Variation.objects.update(options=OPTIONS)


def check_answer(world: World, identity: str, url: str) -> None:
    """Check that an answer is 200 and takes little memory, and that an array has its maximum size."""
    warm = world.request(identity, "GET", f"{url.partition('?')[0]}?limit=1")
    assert warm.status_code == 200, warm.content
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # so that the memory of earlier answers does not serve this one
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_bytes()
    answer = world.request(identity, "GET", url)
    growth = peak_bytes() - before
    assert answer.status_code == 200, answer.content
    assert growth <= MAX_GROWTH_BYTES
    rows = answer.json()
    if isinstance(rows, list) and len(rows) > 1:  # a longer row is sent alone
        assert len(answer.content) <= MAX_ARRAY_BYTES


def peak_bytes() -> int:
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) * 1024


def with_relations(path: str) -> str:
    view: Any = resolve(path).func
    filters = getattr(getattr(view, "cls", None) or view.view_class, "filterset_class", None)
    return f"{path}?limit=100&with={';'.join(filters.relations if filters else [])}"


@pytest.mark.parametrize("route", LISTS)
def test_n3_a_list_of_the_longest_rows_is_bounded(world: World, route: str):
    identity, fill = LISTS[route]
    fill(MAX_ROWS)
    lengthen_texts()
    path = route.format(**world.names)
    check_answer(world, identity, path)
    check_answer(world, identity, with_relations(path))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("route", PRODUCT_LISTS)
def test_n3_a_list_of_products_with_all_that_they_may_have_is_bounded(world: World, route: str):
    identity, fill = LISTS[route]
    fill(120)
    widen_products()
    lengthen_texts()
    check_answer(world, identity, with_relations(route.format(**world.names)))
