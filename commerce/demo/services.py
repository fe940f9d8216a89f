"""Creation of the small demo store: users, two shops and twenty products."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.utils.text import slugify

from commerce.catalog.models import Category, Product, ProductType
from commerce.demo import small_data
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.services import create_user


@transaction.atomic
def seed_small(*, now: datetime) -> list[User]:
    """Create what is missing of the small demo. Return the users in the order of `small_data.USERS`."""
    users = create_users_and_shops(small_data.USERS, small_data.SHOPS, now=now)
    for slug, (type_slug, name) in small_data.CATEGORIES.items():
        create_category(slug, name, type_slug, small_data.TYPES[type_slug])
    shops = Shop.objects.in_bulk([shop.slug for shop in small_data.SHOPS], field_name="slug")
    for demo in small_data.PRODUCTS:
        product = Product(
            shop=shops[demo.shop],
            name=demo.name,
            price=demo.price,
            sale_price=demo.sale_price,
            quantity=demo.quantity,
        )
        create_product(product, demo.category)
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


def create_product(product: Product, category_slug: str) -> Product | None:
    """Publish a product in a category. Return None if there is a product with its slug already."""
    product.slug = slugify(product.name)
    if Product.objects.filter(slug=product.slug, language="en").exists():
        return None
    category = Category.objects.get(slug=category_slug, language="en")
    product.type_id, product.status = category.type_id, Product.Status.PUBLISH
    product.save(force_insert=True)
    product.categories.add(category)
    return product


def _user(demo: small_data.DemoUser, now: datetime) -> User:
    existing = User.objects.filter(email=demo.email).first()
    return existing or create_user(
        email=demo.email, name=demo.name, password=small_data.PASSWORD, role=demo.role, now=now
    )
