"""The lists of addresses and products as plain Django views: the same bytes, without authentication."""

import os
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

from commerce.addresses.models import Address  # noqa: E402
from commerce.attachments.models import Attachment  # noqa: E402
from commerce.attachments.records import attachment_record  # noqa: E402
from commerce.catalog.models import Product  # noqa: E402
from shared.api.money import to_number  # noqa: E402

PLAIN = [
    "id", "name", "slug", "description", "type_id", "price", "sale_price", "min_price", "max_price", "currency",
    "sku", "quantity", "sold_quantity", "in_stock", "is_taxable", "status", "product_type", "unit", "height", "width",
    "length", "image", "gallery", "language", "shop_id", "ratings", "total_reviews", "rating_count",
    "created_at", "updated_at",
]  # fmt: skip
MONEY = ("price", "sale_price", "min_price", "max_price")
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
    total = found.count()
    pages = -(-total // LIMIT)
    url = request.build_absolute_uri(request.path)
    links = [{"url": f"{url}?page={page}", "label": str(page), "active": page == 1} for page in range(1, pages + 1)]
    following = f"{url}?page=2" if pages > 1 else None
    previous = {"url": None, "label": "&laquo; Previous", "active": False}
    return answer({
        "current_page": 1, "data": [product(row, request) for row in rows], "first_page_url": f"{url}?page=1",
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


urlpatterns = [path("api/addresses", addresses), path("api/products", products)]
