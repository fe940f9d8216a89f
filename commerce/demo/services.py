"""Filling an empty shop with demo data: the few people and goods that a first look needs."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.utils.text import slugify

from commerce.catalog.models import Category, Product, ProductType
from commerce.demo import data
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.services import create_user


@transaction.atomic
def seed_small(*, now: datetime) -> list[User]:
    """Makes the demo users, shops and products that are not there yet; what is there stays as it is. The users come
    back in `data.USERS`' order."""
    users = make_people(data.USERS, data.SHOPS, now=now)
    for slug, (type_slug, name) in data.CATEGORIES.items():
        make_category(slug, name, type_slug, data.TYPES[type_slug])
    shops = Shop.objects.in_bulk([shop.slug for shop in data.SHOPS], field_name="slug")
    for demo in data.PRODUCTS:
        product = Product(
            shop=shops[demo.shop],
            name=demo.name,
            price=demo.price,
            sale_price=demo.sale_price,
            quantity=demo.quantity,
        )
        make_product(product, demo.category)
    return users


def make_people(people: Iterable[data.DemoUser], shops: Iterable[data.DemoShop], *, now: datetime) -> list[User]:
    """The users, the shops that some of them own, and the places where others work."""
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


def make_category(slug: str, name: str, type_slug: str, type_name: str) -> None:
    product_type, _ = ProductType.objects.get_or_create(slug=type_slug, language="en", defaults={"name": type_name})
    Category.objects.get_or_create(slug=slug, language="en", defaults={"type": product_type, "name": name})


def make_product(product: Product, category_slug: str) -> Product | None:
    """Publishes the product, named after itself, in a category; None where its slug is there already."""
    product.slug = slugify(product.name)
    if Product.objects.filter(slug=product.slug, language="en").exists():
        return None
    category = Category.objects.get(slug=category_slug, language="en")
    product.type_id, product.status = category.type_id, Product.Status.PUBLISH
    product.save(force_insert=True)
    product.categories.add(category)
    return product


def _user(demo: data.DemoUser, now: datetime) -> User:
    known = User.objects.filter(email=demo.email).first()
    return known or create_user(email=demo.email, name=demo.name, password=data.PASSWORD, role=demo.role, now=now)
