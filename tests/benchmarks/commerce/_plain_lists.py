"""Lists of the shop as plain Django views: the same records, without authentication, filters and limits."""

import os
from collections.abc import Iterable
from datetime import datetime
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.test")

from django.conf import settings
from django.core.asgi import get_asgi_application

settings.ROOT_URLCONF = "tests.benchmarks.commerce._plain_lists"
settings.MIDDLEWARE = []
application = get_asgi_application()

import json  # noqa: E402 - what needs Django's apps comes after them

from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils import timezone  # noqa: E402

from commerce.addresses.models import Address  # noqa: E402
from commerce.analytics.reports.report import open_report  # noqa: E402
from commerce.analytics.reports.scopes import scope_for_user  # noqa: E402
from commerce.analytics.serializers import overview_body  # noqa: E402
from commerce.attachments.models import Attachment  # noqa: E402
from commerce.attachments.serializers import attachment_record  # noqa: E402
from commerce.attributes.models import Attribute  # noqa: E402
from commerce.catalog.models import Product  # noqa: E402
from commerce.orders.models import Order, OrderLine  # noqa: E402
from commerce.shops.models import Shop  # noqa: E402
from shared.accounts.models import User  # noqa: E402
from shared.api.money import to_number  # noqa: E402

PLAIN = [
    "id", "name", "slug", "description", "type_id", "price", "sale_price", "min_price", "max_price", "currency",
    "sku", "quantity", "sold_quantity", "in_stock", "is_taxable", "status", "product_type", "unit", "height", "width",
    "length", "image", "gallery", "language", "shop_id", "ratings", "total_reviews", "rating_count",
    "created_at", "updated_at",
]  # fmt: skip
MONEY = ("price", "sale_price", "min_price", "max_price")
ORDER = [
    "id", "tracking_number", "customer_id", "customer_contact", "order_status", "currency", "amount", "sales_tax",
    "delivery_fee", "discount", "paid_total", "total", "refunded_total", "shop_id", "parent_id", "payment_gateway",
    "billing_address", "shipping_address",
]  # fmt: skip
ORDER_MONEY = ORDER[6:13]
LIMIT = 15


def addresses(request: HttpRequest) -> HttpResponse:
    rows = Address.objects.filter(customer=int(request.GET["customer"])).order_by("id")[:1001]
    return answer([
        {
            "id": row.pk, "title": row.title, "type": row.type, "default": row.default, "address": row.address,
            "customer_id": row.customer_id, "created_at": written(row.created_at),
            "updated_at": written(row.updated_at),
        }
        for row in rows
    ])  # fmt: skip


def products(request: HttpRequest) -> HttpResponse:
    found = Product.objects.public().filter(language="en")
    rows = found.select_related("image").prefetch_related("gallery").order_by("-id")[:LIMIT]
    return page([product(row, request) for row in rows], found.count(), request)


def attributes(request: HttpRequest) -> HttpResponse:
    rows = Attribute.objects.filter(shop__in=Shop.objects.filter(is_active=True), language="en").for_response()
    return answer([
        {
            "id": row.pk, "name": row.name, "slug": row.slug, "shop_id": row.shop_id, "language": row.language,
            "translated_languages": sorted(row.languages.split(",")),
            "values": [
                {
                    "id": value.pk, "value": value.value, "meta": value.meta, "slug": value.slug,
                    "language": row.language,
                }
                for value in row.values.all()
            ],
            "created_at": written(row.created_at), "updated_at": written(row.updated_at),
        }
        for row in rows[:1001]
    ])  # fmt: skip


def orders(request: HttpRequest) -> HttpResponse:
    found = Order.objects.filter(customer=int(request.GET["customer"]), parent=None)
    rows = found.for_response().order_by("-created_at", "-id")[:LIMIT]
    return page([whole_order(row, request) for row in rows], found.count(), request)


def whole_order(row: Order, request: HttpRequest) -> dict[str, Any]:
    children = list(row.children.all())
    return order(row, [line for child in children for line in child.lines.all()], request) | {
        "children": [order(child, child.lines.all(), request) for child in children],
        "customer": {"id": row.customer.pk, "name": row.customer.name, "email": row.customer.email},
        "customer_name": row.customer.name,
    }


def order(row: Order, lines: Iterable[OrderLine], request: HttpRequest) -> dict[str, Any]:
    record = {name: getattr(row, name) for name in ORDER}
    for name in ORDER_MONEY:
        record[name] = to_number(record[name], row.currency)
    record["products"] = [
        {
            "id": line.product_id, "name": line.product.name, "slug": line.product.slug,
            "image": picture(line.product.image, request),
            "pivot": {
                "order_quantity": line.quantity, "unit_price": to_number(line.unit_price, row.currency),
                "subtotal": to_number(line.subtotal, row.currency), "variation_option_id": line.variation_id,
            },
        }
        for line in lines
    ]  # fmt: skip
    return record | {"created_at": written(row.created_at), "updated_at": written(row.updated_at)}


def analytics(request: HttpRequest) -> HttpResponse:
    scope = scope_for_user(User.objects.filter(role="SUPER_ADMIN").first(), shop_id=None, currency=settings.CURRENCY)
    with open_report(scope, now=timezone.now()) as report:
        return answer(overview_body(report))


def page(rows: list[dict[str, Any]], total: int, request: HttpRequest) -> HttpResponse:
    pages = -(-total // LIMIT)
    url = request.build_absolute_uri(request.path)
    links = [{"url": f"{url}?page={page}", "label": str(page), "active": page == 1} for page in range(1, pages + 1)]
    following = f"{url}?page=2" if pages > 1 else None
    previous = {"url": None, "label": "&laquo; Previous", "active": False}
    return answer({
        "current_page": 1, "data": rows, "first_page_url": f"{url}?page=1",
        "from": 1, "last_page": pages, "last_page_url": f"{url}?page={pages}",
        "links": [previous, *links, {"url": following, "label": "Next &raquo;", "active": False}],
        "next_page_url": following, "path": url, "per_page": LIMIT, "prev_page_url": None, "to": len(rows),
        "total": total,
    })  # fmt: skip


def product(row: Product, request: HttpRequest) -> dict[str, Any]:
    record = {name: getattr(row, name) for name in PLAIN}
    for name in MONEY:
        record[name] = None if record[name] is None else to_number(record[name], row.currency)
    record |= {"ratings": round(row.ratings, 2), "image": picture(row.image, request)}
    record |= {"gallery": [picture(one, request) for one in row.gallery.all()]}
    return record | {"created_at": written(row.created_at), "updated_at": written(row.updated_at)}


def picture(attachment: Attachment | None, request: HttpRequest) -> dict[str, Any] | None:
    return None if attachment is None else attachment_record(attachment, request)


def written(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def answer(body: Any) -> HttpResponse:
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return HttpResponse(content, content_type="application/json", headers={"Content-Length": str(len(content))})


urlpatterns = [path(f"api/{view.__name__}", view) for view in (addresses, products, attributes, orders, analytics)]
