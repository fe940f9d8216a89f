"""Creation of the small demo store: users, two shops and their products."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from commerce.attributes import services as attribute_services
from commerce.attributes.models import Attribute, AttributeValue
from commerce.catalog.models import Category, Product, ProductType, Tag
from commerce.catalog.variations import change_variations, set_attribute_values
from commerce.demo import small_data
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.services import create_user
from shared.api.slugs import make_slug


@transaction.atomic
def seed_small(*, products: Sequence[small_data.DemoProduct] = small_data.PRODUCTS, now: datetime) -> list[User]:
    """Create what is missing of the small demo. Return the users in the order of `small_data.USERS`."""
    users = create_users_and_shops(small_data.USERS, small_data.SHOPS, now=now)
    for slug, (type_slug, name) in small_data.CATEGORIES.items():
        create_category(slug, name, type_slug, small_data.TYPES[type_slug])
    for slug, (parent_slug, name) in small_data.SUBCATEGORIES.items():
        create_subcategory(slug, name, parent_slug)
    for slug, name in small_data.TAGS.items():
        Tag.objects.get_or_create(slug=slug, language="en", defaults={"name": name})
    shops = Shop.objects.in_bulk([shop.slug for shop in small_data.SHOPS], field_name="slug")
    attributes = {
        (demo.shop, demo.name): create_attribute(shops[demo.shop], demo.name, demo.values, now=now)
        for demo in small_data.ATTRIBUTES
    }
    for demo in products:
        product = Product(
            shop=shops[demo.shop],
            name=demo.name,
            price=demo.price,
            sale_price=demo.sale_price,
            quantity=demo.quantity,
            unit=demo.unit,
            product_type=Product.Kind.VARIABLE if demo.values else Product.Kind.SIMPLE,
        )
        if create_product(product, demo.category):
            product.tags.set(Tag.objects.filter(slug__in=demo.tags, language="en"))
            if demo.values:
                values = [attributes[demo.shop, name].values.filter(value__in=one) for name, one in demo.values.items()]
                vary_product(product, values, now=now)
    return users


def create_users_and_shops(
    people: Iterable[small_data.DemoUser], shops: Iterable[small_data.DemoShop], *, now: datetime
) -> list[User]:
    """Create users, the shops that they own, and the memberships of staff."""
    users = {demo.email: _user(demo, now) for demo in people}
    for demo in shops:
        fields = {"name": demo.name, "description": demo.description}
        owner = users.get(demo.owner) or User.objects.get(email=demo.owner)
        Shop.objects.get_or_create(slug=demo.slug, defaults=fields | {"owner": owner})
    for person in people:
        if person.works_at:
            shop = Shop.objects.get(slug=person.works_at)
            ShopStaff.objects.get_or_create(user=users[person.email], defaults={"shop": shop})
    return list(users.values())


def create_category(slug: str, name: str, type_slug: str, type_name: str) -> None:
    product_type, _ = ProductType.objects.get_or_create(slug=type_slug, language="en", defaults={"name": type_name})
    Category.objects.get_or_create(slug=slug, language="en", defaults={"type": product_type, "name": name})


def create_subcategory(slug: str, name: str, parent_slug: str) -> None:
    parent = Category.objects.get(slug=parent_slug, language="en")
    values = {"type_id": parent.type_id, "parent": parent, "depth": parent.depth + 1, "name": name}
    Category.objects.get_or_create(slug=slug, language="en", defaults=values)


def create_attribute(shop: Shop, name: str, values: Mapping[str, str], *, now: datetime) -> Attribute:
    """Return the shop's attribute of this name, which is created if there is none, with at least these values."""
    attribute = Attribute.objects.filter(shop=shop, name=name, language="en").prefetch_related("values").first()
    existing = [] if attribute is None else list(attribute.values.all())
    texts = {row.value for row in existing}
    missing = [{"value": text, "meta": meta} for text, meta in values.items() if text not in texts]
    if attribute is None:
        return attribute_services.create_attribute(
            actor=shop.owner, shop_id=shop.pk, name=name, values=missing, now=now
        )
    if missing:
        kept = [{"id": row.pk, "value": row.value} for row in existing]
        changes = {"values": [*kept, *missing]}
        attribute_services.update_attribute(actor=shop.owner, attribute_id=attribute.pk, changes=changes, now=now)
    return attribute


def vary_product(
    product: Product, values: Sequence["QuerySet[AttributeValue]"], *, price_step: int = 0, now: datetime
) -> None:
    """Give a new product a variation for each combination of these values of attributes, and divide its stock.

    `values` has the values of one attribute each. Each variation costs `price_step` more than the one before, in minor
    units. Its title names the values in which the variations differ.
    """
    of_attributes = [list(of_one.select_related("attribute").order_by("pk")) for of_one in values]
    set_attribute_values(product=product, value_ids=[value.pk for of_one in of_attributes for value in of_one])
    shared = {of_one[0] for of_one in of_attributes if len(of_one) == 1}
    combinations = list(itertools.product(*of_attributes))
    share, remainder = divmod(product.quantity, len(combinations))
    upsert = [
        {
            "title": "/".join(value.value for value in combination if len(combinations) == 1 or value not in shared),
            "options": [{"name": value.attribute.name, "value": value.value} for value in combination],
            "price": product.price + price_step * position,
            "sale_price": product.sale_price,
            "quantity": share + (position < remainder),
        }
        for position, combination in enumerate(combinations)
    ]
    change_variations(product=product, upsert=upsert, removed_ids=[], now=now)


def create_product(product: Product, category_slug: str) -> Product | None:
    """Publish a product in a category and in the one above. Return None if there is a product with its slug already."""
    product.slug = make_slug(product.name)
    if Product.objects.filter(slug=product.slug, language="en").exists():
        return None
    category = Category.objects.get(slug=category_slug, language="en")
    product.type_id, product.status = category.type_id, Product.Status.PUBLISH
    product.save(force_insert=True)
    product.categories.add(category, *([category.parent] if category.parent else []))
    return product


def _user(demo: small_data.DemoUser, now: datetime) -> User:
    existing = User.objects.filter(email=demo.email).first()
    return existing or create_user(
        email=demo.email, name=demo.name, password=small_data.PASSWORD, role=demo.role, now=now
    )
