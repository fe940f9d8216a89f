"""The whole demo shop: two hundred products with pictures, customers, two years of orders, and what people say.

Everything is drawn from one seed, and what is there already stays: a second run adds what is missing.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from random import Random

from django.conf import settings
from django.db import transaction

from commerce.analytics.services import fold
from commerce.attachments.intake import Offered
from commerce.attachments.services import upload_attachments
from commerce.catalog.models import Product, Variation
from commerce.catalog.variations import set_variations
from commerce.demo.goods import CATEGORIES, FIRST_NAMES, LAST_NAMES, SHOPS, TYPES, USERS, DemoGoods, all_goods
from commerce.demo.history import DAYS, Sold, Terms, past_orders
from commerce.demo.pictures import draw_picture
from commerce.demo.services import make_category, make_people, make_product, seed_small
from commerce.orders.bulk import insert_past_orders
from commerce.orders.models import Order
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role

FEWEST_SHOPPERS, MOST_SHOPPERS, ORDERS_A_SHOPPER = 60, 200_000, 8
SHOPPERS_AT_ONCE = 5000
SHOPPER_DOMAIN = "@shopper.stoa.example"

# Told what is being made, how much of it is there, and how much there will be.
Told = Callable[[str, int, int], None]


def seed_goods(*, seed: int, now: datetime) -> list[User]:
    """The people, shops, categories and products. The users that a first look needs come back."""
    with transaction.atomic():
        users = seed_small(now=now)
        make_people(USERS, SHOPS, now=now)
        for category in CATEGORIES:
            make_category(category.slug, category.name, category.type, TYPES[category.type])
        shops = Shop.objects.in_bulk([category.shop for category in CATEGORIES], field_name="slug")
        for goods in all_goods(Random(seed)):  # noqa: S311 nothing here is a secret
            _make(goods, shops[goods.category.shop], now)
    return users


def _make(goods: DemoGoods, shop: Shop, now: datetime) -> None:
    sizes = goods.category.sizes.split()
    product = Product(
        shop=shop,
        name=goods.name,
        description=goods.description,
        price=goods.price,
        sale_price=goods.sale_price,
        quantity=goods.quantity,
        product_type=Product.Kind.VARIABLE if sizes else Product.Kind.SIMPLE,
    )
    if make_product(product, goods.category.slug) and sizes:
        wanted = [
            {
                "title": size,
                "options": [{"name": "Size", "value": size}],
                "price": goods.price + 100 * place,
                "sale_price": goods.sale_price,
                "quantity": goods.quantity // len(sizes) + place,
            }
            for place, size in enumerate(sizes)
        ]
        set_variations(product=product, wanted=wanted, now=now)


def seed_pictures(*, seed: int, now: datetime, tell: Told) -> None:
    """A drawn picture for each product of the demo that has none."""
    shapes = {category.slug: category.shape for category in CATEGORIES}
    bare = (
        Product.objects.live().filter(image=None, categories__slug__in=shapes, language="en").order_by("shop_id", "id")
    )
    products = list(bare.select_related("shop__owner").prefetch_related("categories"))
    for first in range(0, len(products), settings.MOST_FILES):
        tell("Pictures", first, len(products))
        some = products[first : first + settings.MOST_FILES]
        for owner in {product.shop.owner for product in some}:
            own = [product for product in some if product.shop.owner == owner]
            _hang(own, [_picture(product, shapes, seed) for product in own], owner, now)
    tell("Pictures", len(products), len(products))


def _picture(product: Product, shapes: Mapping[str, str], seed: int) -> bytes:
    shape = next(shapes[category.slug] for category in product.categories.all() if category.slug in shapes)
    return draw_picture(shape, Random(f"{seed} {product.slug}").random())  # noqa: S311


def _hang(products: Sequence[Product], pictures: Sequence[bytes], owner: User, now: datetime) -> None:
    with ExitStack() as files:
        offered = []
        for product, picture in zip(products, pictures, strict=True):
            file = files.enter_context(tempfile.TemporaryFile())
            file.write(picture)
            offered.append(Offered(file=file, name=f"{product.slug}.jpg"))
        for product, attachment in zip(
            products, upload_attachments(owner=owner, offered=offered, now=now), strict=True
        ):
            product.image = attachment
    Product.objects.bulk_update(products, ["image"])


def seed_orders(*, seed: int, count: int, now: datetime, tell: Told) -> None:
    """Orders of the last two years, until there are `count` in the shop, customers enough for them, and the figures of
    all that. Memory does not grow with their number."""
    missing = count - Order.objects.filter(parent=None).count()
    if missing <= 0:
        return
    random = Random(f"{seed} {count - missing}")  # noqa: S311
    customer_ids = _shoppers(min(MOST_SHOPPERS, max(FEWEST_SHOPPERS, count // ORDERS_A_SHOPPER)), now, tell)
    terms = Terms(currency=settings.CURRENCY, tax_rate=settings.TAX_RATE, delivery_fee=settings.DELIVERY_FEE)
    orders = past_orders(count=missing, until=now, goods=_sold(), customer_ids=customer_ids, terms=terms, random=random)
    done = 0
    for inserted in insert_past_orders(orders, random=random):
        done += inserted
        fold(now=now)  # four entries an order: whoever first asks for the figures would have to add up all of them
        tell("Orders", done, missing)


def _shoppers(count: int, now: datetime, tell: Told) -> list[int]:
    """The ids of so many customers, in the order in which they came. They cannot sign in."""
    shoppers = User.objects.filter(email__endswith=SHOPPER_DOMAIN, role=Role.CUSTOMER)
    known = shoppers.count()
    for first in range(known, count, SHOPPERS_AT_ONCE):
        numbers = range(first, min(count, first + SHOPPERS_AT_ONCE))
        User.objects.bulk_create([_shopper(number, count, now) for number in numbers])
        tell("Customers", numbers.stop, count)
    return list(shoppers.order_by("created_at", "id").values_list("id", flat=True)[:count])


def _shopper(number: int, count: int, now: datetime) -> User:
    name = f"{FIRST_NAMES[number % len(FIRST_NAMES)]} {LAST_NAMES[number // len(FIRST_NAMES) % len(LAST_NAMES)]}"
    joined = now - timedelta(days=DAYS) * (1 - number / count)
    return User(email=f"{number:07}{SHOPPER_DOMAIN}", name=name, role=Role.CUSTOMER, password="!", created_at=joined)  # noqa: S106


def _sold() -> list[Sold]:
    seasons = {category.slug: category.season for category in CATEGORIES}
    rows = Product.objects.public().filter(currency=settings.CURRENCY).order_by("id")
    sold = []
    for product in rows.prefetch_related("categories", "variations"):
        slugs = [category.slug for category in product.categories.all()]
        season = next((seasons[slug] for slug in slugs if slug in seasons), "")
        for one in _forms(product):
            variation_id = one.pk if isinstance(one, Variation) else None
            sold.append(
                Sold(
                    product_id=product.pk,
                    shop_id=product.shop_id,
                    price=one.selling_price,
                    season=season,
                    variation_id=variation_id,
                )
            )
    return sold


def _forms(product: Product) -> Sequence[Product | Variation]:
    """In what forms it is bought: its variations, or as it is."""
    if product.product_type == Product.Kind.SIMPLE:
        return [product]
    return [variation for variation in product.variations.all() if variation.deleted_at is None]
