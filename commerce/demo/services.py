"""Filling an empty shop with demo data."""

from datetime import datetime

from django.db import transaction
from django.utils.text import slugify

from commerce.catalog.models import Category, Product, ProductType
from commerce.demo import data
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.services import create_user


@transaction.atomic
def seed_demo(*, now: datetime) -> list[User]:
    """Makes the demo users, shops and products that are not there yet; what is there stays as it is. The users come
    back in `data.USERS`' order."""
    users = {user.email: _user(user, now) for user in data.USERS}
    shops = {shop.slug: _shop(shop, users[shop.owner]) for shop in data.SHOPS}
    for user in data.USERS:
        if user.works_at:
            ShopStaff.objects.get_or_create(user=users[user.email], defaults={"shop": shops[user.works_at]})
    categories = {slug: _category(slug, type_slug, name) for slug, (type_slug, name) in data.CATEGORIES.items()}
    for product in data.PRODUCTS:
        _product(product, shops[product.shop], categories[product.category])
    return list(users.values())


def _user(demo: data.DemoUser, now: datetime) -> User:
    known = User.objects.filter(email=demo.email).first()
    return known or create_user(email=demo.email, name=demo.name, password=data.PASSWORD, role=demo.role, now=now)


def _shop(demo: data.DemoShop, owner: User) -> Shop:
    fields = {"owner": owner, "name": demo.name, "description": demo.description}
    return Shop.objects.get_or_create(slug=demo.slug, defaults=fields)[0]


def _category(slug: str, type_slug: str, name: str) -> Category:
    type_name = data.TYPES[type_slug]
    product_type, _ = ProductType.objects.get_or_create(slug=type_slug, language="en", defaults={"name": type_name})
    fields = {"type": product_type, "name": name}
    return Category.objects.get_or_create(slug=slug, language="en", defaults=fields)[0]


def _product(demo: data.DemoProduct, shop: Shop, category: Category) -> None:
    fields = {
        "shop": shop,
        "type": category.type,
        "name": demo.name,
        "price": demo.price,
        "sale_price": demo.sale_price,
        "quantity": demo.quantity,
        "status": Product.Status.PUBLISH,
    }
    product, made = Product.objects.get_or_create(slug=slugify(demo.name), language="en", defaults=fields)
    if made:
        product.categories.add(category)
