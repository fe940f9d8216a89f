"""The full demo store: two hundred products with images, customers, and orders of two years.

Everything is drawn from one seed. Existing rows stay: a second run adds what is missing.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from random import Random

from django.conf import settings
from django.core.files import File
from django.db import transaction
from django.db.models import Q

from commerce.analytics.aggregation.batches import aggregate_ledger
from commerce.attachments.services import upload_attachments
from commerce.catalog.models import Product, Variation
from commerce.demo.full_data import (
    CATEGORIES,
    FIRST_NAMES,
    LAST_NAMES,
    SHOPS,
    TYPES,
    USERS,
    GeneratedProduct,
    generate_products,
)
from commerce.demo.images import draw_image
from commerce.demo.order_history import HISTORY_DAYS, OrderTerms, SellableItem, generate_orders
from commerce.demo.services import (
    create_attribute,
    create_category,
    create_product,
    create_users_and_shops,
    seed_small,
    vary_product,
)
from commerce.demo.small_data import SHAPES
from commerce.orders.bulk_insert import insert_orders
from commerce.orders.models import Order
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role

MIN_CUSTOMERS, MAX_CUSTOMERS, ORDERS_PER_CUSTOMER = 60, 200_000, 8
CUSTOMERS_PER_INSERT = 5000
CUSTOMER_DOMAIN = "@shopper.stoa.example"

# Called with the name of what is created, the number done and the total.
ProgressCallback = Callable[[str, int, int], None]


def seed_catalog(*, seed: int, now: datetime) -> list[User]:
    """Create users, shops, categories and products. Return the users of `small_data.USERS`."""
    with transaction.atomic():
        users = seed_small(now=now)
        create_users_and_shops(USERS, SHOPS, now=now)
        for category in CATEGORIES:
            create_category(category.slug, category.name, category.type, TYPES[category.type])
        shops = Shop.objects.in_bulk([category.shop for category in CATEGORIES], field_name="slug")
        owners = {shop.owner_id for shop in shops.values()}  # with more pictures than an unconfirmed user may have
        User.objects.filter(pk__in=owners, email_verified_at=None).update(email_verified_at=now)
        for generated in generate_products(Random(seed)):  # noqa: S311 nothing here is a secret
            _create_product(generated, shops[generated.category.shop], now)
    return users


def _create_product(generated: GeneratedProduct, shop: Shop, now: datetime) -> None:
    sizes = generated.category.sizes.split()
    product = Product(
        shop=shop,
        name=generated.name,
        description=generated.description,
        price=generated.price,
        sale_price=generated.sale_price,
        quantity=generated.quantity,
        product_type=Product.Kind.VARIABLE if sizes else Product.Kind.SIMPLE,
    )
    if create_product(product, generated.category.slug) and sizes:
        attribute = create_attribute(shop, generated.category.size_attribute, dict.fromkeys(sizes, ""), now=now)
        vary_product(product, [attribute.values.filter(value__in=sizes)], price_step=100, now=now)


def seed_images(*, seed: int, now: datetime, report_progress: ProgressCallback) -> None:
    """Draw an image for each product of the demo that has none."""
    shapes = {category.slug: category.shape for category in CATEGORIES}
    is_drawn = Q(categories__slug__in=shapes) | Q(slug__in=SHAPES)
    without_image = Product.objects.live().filter(is_drawn, image=None, language="en").order_by("shop_id", "id")
    products = list(without_image.distinct().select_related("shop__owner").prefetch_related("categories"))
    for first in range(0, len(products), settings.MAX_UPLOAD_FILES):
        report_progress("Pictures", first, len(products))
        batch = products[first : first + settings.MAX_UPLOAD_FILES]
        for owner in {product.shop.owner for product in batch}:
            own = [product for product in batch if product.shop.owner == owner]
            _attach_images(own, [_draw_product(product, shapes, seed) for product in own], owner, now)
    report_progress("Pictures", len(products), len(products))


def _draw_product(product: Product, shapes: Mapping[str, str], seed: int) -> bytes:
    of_categories = (shapes[category.slug] for category in product.categories.all() if category.slug in shapes)
    shape = SHAPES.get(product.slug) or next(of_categories)
    return draw_image(shape, Random(f"{seed} {product.slug}").random())  # noqa: S311


def _attach_images(products: Sequence[Product], images: Sequence[bytes], owner: User, now: datetime) -> None:
    with ExitStack() as stack:
        files = []
        for product, image in zip(products, images, strict=True):
            file = stack.enter_context(tempfile.TemporaryFile())
            file.write(image)
            files.append(File(file, f"{product.slug}.jpg"))
        attachments = upload_attachments(owner=owner, incoming_files=files, now=now)
        for product, attachment in zip(products, attachments, strict=True):
            product.image = attachment
    Product.objects.bulk_update(products, ["image"])


def seed_orders(
    *,
    seed: int,
    count: int,
    now: datetime,
    report_progress: ProgressCallback,
    history_days: int = HISTORY_DAYS,
) -> None:
    """Insert orders of these last days until there are `count`, with customers and aggregated analytics.

    Memory does not grow with their number.
    """
    missing = count - Order.objects.filter(parent=None).count()
    if missing <= 0:
        return
    random = Random(f"{seed} {count - missing}")  # noqa: S311
    customer_count = min(MAX_CUSTOMERS, max(MIN_CUSTOMERS, count // ORDERS_PER_CUSTOMER))
    customer_ids = _create_customers(customer_count, now, report_progress)
    terms = OrderTerms(currency=settings.CURRENCY, tax_rate=settings.TAX_RATE, delivery_fee=settings.DELIVERY_FEE)
    orders = generate_orders(
        count=missing,
        until=now,
        items=_sellable_items(),
        customer_ids=customer_ids,
        terms=terms,
        random=random,
        history_days=history_days,
    )
    done = 0
    for inserted in insert_orders(orders, random=random):
        done += inserted
        aggregate_ledger(now=now)  # an order has four ledger entries, and reads would sum all that wait
        report_progress("Orders", done, missing)


def _create_customers(count: int, now: datetime, report_progress: ProgressCallback) -> list[int]:
    """Return the ids of `count` customers in the order in which they joined. They cannot sign in."""
    customers = User.objects.filter(email__endswith=CUSTOMER_DOMAIN, role=Role.CUSTOMER)
    existing = customers.count()
    for first in range(existing, count, CUSTOMERS_PER_INSERT):
        numbers = range(first, min(count, first + CUSTOMERS_PER_INSERT))
        User.objects.bulk_create([_customer(number, count, now) for number in numbers])
        report_progress("Customers", numbers.stop, count)
    return list(customers.order_by("created_at", "id").values_list("id", flat=True)[:count])


def _customer(number: int, count: int, now: datetime) -> User:
    name = f"{FIRST_NAMES[number % len(FIRST_NAMES)]} {LAST_NAMES[number // len(FIRST_NAMES) % len(LAST_NAMES)]}"
    joined_at = now - timedelta(days=HISTORY_DAYS) * (1 - number / count)
    email = f"{number:07}{CUSTOMER_DOMAIN}"
    return User(email=email, name=name, role=Role.CUSTOMER, password="!", created_at=joined_at)  # noqa: S106


def _sellable_items() -> list[SellableItem]:
    seasons = {category.slug: category.season for category in CATEGORIES}
    products = Product.objects.public().filter(currency=settings.CURRENCY).order_by("id")
    items: list[SellableItem] = []
    for product in products.prefetch_related("categories", "variations"):
        slugs = [category.slug for category in product.categories.all()]
        season = next((seasons[slug] for slug in slugs if slug in seasons), "")
        items += [
            SellableItem(
                product_id=product.pk,
                shop_id=product.shop_id,
                price=one.selling_price,
                season=season,
                variation_id=one.pk if isinstance(one, Variation) else None,
            )
            for one in _product_or_variations(product)
        ]
    return items


def _product_or_variations(product: Product) -> Sequence[Product | Variation]:
    """Return the live variations of a variable product, or a simple product itself."""
    if product.product_type == Product.Kind.SIMPLE:
        return [product]
    return [variation for variation in product.variations.all() if variation.deleted_at is None]
