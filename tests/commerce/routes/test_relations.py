"""The `with` parameter returns no more than the user could read by a request of their own.

It covers every relation of every operation, for every kind of user. A relation to a model in neither list fails.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from django.db.models import Model
from django.urls import resolve
from django.utils import timezone

from commerce.attachments.models import Attachment
from commerce.attributes.models import Attribute, AttributeValue
from commerce.catalog.models import Category, Product, ProductType, Tag, Variation
from commerce.orders.models import Order, OrderLine
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.lists.relations import INCLUDED, MAX_WITH_LENGTH, LoadedRelation
from tests.commerce.routes.route_table import TABLE, Row
from tests.commerce.routes.scenario import IDENTITIES, World
from tests.commerce.routes.test_route_matrix import answer, media, only_world, provider, world

__all__ = ["media", "only_world", "provider", "world"]

HIDDEN_PRODUCT, HIDDEN_SHOP = "A hidden lamp", "A hidden shop"
# Models with restricted visibility: the name of a hidden record, and the path that reads it.
GUARDED: dict[type[Model], tuple[str, str]] = {
    Product: (HIDDEN_PRODUCT, "/api/products/{product}"),
    Shop: (HIDDEN_SHOP, "/api/shops/{shop}"),
}
# Models that are visible with any record that refers to them, and the reason.
OPEN: dict[type[Model], str] = {
    User: "authors' names are public; a customer's is for the shops they order from",
    ProductType: "read by everybody",
    Category: "read by everybody",
    Tag: "read by everybody",
    Attachment: "read by everybody",
    AttributeValue: "a part of the attribute",
    Attribute: "of the shop of the product, which is visible with it",
    Variation: "a part of the product",
    OrderLine: "a part of the order",
    Order: "who sees a part or a refund of it sees the order",
}
HIDING: dict[str, dict[str, Any]] = {
    "a draft": {"product": {"status": Product.Status.DRAFT}},
    "deleted": {"product": {"deleted_at": timezone.now()}},
    "of an inactive shop": {"shop": {"is_active": False}},
}

pytestmark = [pytest.mark.django_db, pytest.mark.no_database]


def filters_of(row: Row) -> Any:
    """Return the view's allowed relations, or None if it has none."""
    path = row.path.format_map(_Anything())
    view = resolve(path).func
    found = getattr(view, "view_class", None) or getattr(view, "cls", None)
    return getattr(found, "filterset_class", None)


class _Anything(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "00000000-0000-0000-0000-000000000000" if name == "session" else "1"


RELATIONS = [
    (row, name) for row in TABLE if row.route.startswith("/api/") for name in getattr(filters_of(row), "relations", {})
]


def models_on(row: Row, name: str) -> Iterator[type[Model]]:
    """Return the rows that the relation passes through."""
    filters = filters_of(row)
    model: Any = filters.Meta.model
    relation = filters.relations[name]
    if relation == INCLUDED or isinstance(relation, LoadedRelation):
        return  # of which the test below reads the records, as of all others
    if not isinstance(relation, str):
        relation = relation(None).prefetch_through
    for step in relation.split("__"):
        model = model._meta.get_field(step).related_model
        yield model


def test_every_relation_is_guarded_or_public():
    reached = {model for row, name in RELATIONS for model in models_on(row, name)}
    assert reached <= GUARDED.keys() | OPEN.keys()
    assert set(GUARDED) <= reached
    assert all(hasattr(model._default_manager, "visible_to") for model in GUARDED)


@pytest.mark.timeout(300)  # every list for every kind of user
@pytest.mark.parametrize("how", HIDING)
def test_with_never_includes_unreadable_records(world: World, how: str):
    shop = Shop.objects.filter(pk=world.names["shop"])
    product = Product.objects.filter(pk=world.names["product"])
    shop.update(name=HIDDEN_SHOP, **HIDING[how].get("shop", {}))
    product.update(name=HIDDEN_PRODUCT, **HIDING[how].get("product", {}))
    shown: Counter[str] = Counter()

    for row in {row.name: row for row, _ in RELATIONS}.values():
        names = ";".join(name for other, name in RELATIONS if other == row)
        assert len(names) <= MAX_WITH_LENGTH
        for identity in IDENTITIES:
            related = _text(world, identity, row, f"?with={names}")
            for called, where in GUARDED.values():
                if called in related and related.count(called) > _text(world, identity, row, "").count(called):
                    reader = world.request(identity, "GET", where)
                    assert reader.status_code == 200, (row.name, names, identity, called)
                    shown[called] += 1

    assert shown[HIDDEN_SHOP] > 0  # to its members, or to everybody
    assert (shown[HIDDEN_PRODUCT] > 0) == (how != "deleted")


def _text(world: World, identity: str, row: Row, query: str) -> str:
    answered = answer(world, identity, Row(row.method, row.route, row.path + query, row.statuses, row.body))
    assert answered.status_code < 500
    content: bytes = answered.content  # type: ignore[attr-defined]
    return content.decode()
