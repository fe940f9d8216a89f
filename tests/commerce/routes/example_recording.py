"""Recording of the OpenAPI document's examples from the requests and responses of the route table."""

import json
import re
from typing import Any

from django.db import transaction
from django.http import HttpResponse, StreamingHttpResponse
from django.utils import timezone

from commerce.attributes.services import create_attribute
from commerce.catalog.models import Category, Product
from commerce.descriptions.jobs.services import DescriptionOptions, create_job
from commerce.moderation.services import file_report
from commerce.orders.models import Order
from commerce.orders.services import change_order_status
from commerce.shops.models import Shop
from tests.commerce.orders.factories import buy, make_goods, make_variation
from tests.commerce.routes.route_table import TABLE, Row
from tests.commerce.routes.scenario import IDENTITIES, World

# Values that differ between runs.
PLAIN = [
    (r"whsec_[\w/+=]+", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="),
    (r"\bwh_[0-9a-f]{24}", "wh_1f0c2a53d9c64ab2f84e1d07"),
    (r"\bmsg_[0-9a-f]{24}", "msg_6a2f7c1d9e4b83505f1ce2d7"),
    (r"^eyJ[\w.-]+$", "eyJhbGciOiJIUzI1NiIs..."),
    (r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$", "2026-01-10T10:30:00.000000Z"),
    (r"^(eyJ|Wz|\.eJ)[\w-]*:[\w-]+:[\w-]+$", "eyJ1c2VyIjo3fQ:1vHk2q:mZ4..."),
    (r"^http://testserver", "https://shop.example"),
    (r"[0-9a-f]{32}", "9f86d081884c7d659a2feaa0c55ad015"),
]


# The identity whose answer is recorded, where that is not the first with the right to call.
IDENTITY_OF_EXAMPLE = {"/api/me": "owner"}


def template(path: str) -> str:
    """Return a path without the names of its parameters, to find it in the schema."""
    return re.sub(r"\{\w+\}", "{}", path)


def operation_ids(schema: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {
        (method.upper(), template(path)): operation["operationId"]
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    }


def record(world: World, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the request and response of every row that some user may call, by operation."""
    ids = operation_ids(schema)
    fill_lists(world)
    recorded = {}
    for row in TABLE:
        operation = ids.get((row.method, template(row.route)))
        able = [name for name, status in zip(IDENTITIES, row.statuses, strict=True) if 200 <= status < 300]
        if operation and able:
            recorded[operation] = _example(world, row, IDENTITY_OF_EXAMPLE.get(row.route, able[0]))
    return recorded


def fill_lists(world: World) -> None:
    """Add what the lists of the route table have no row of: completed sales, a report, a job, a shop to approve."""
    shop, customer, staff = Shop.objects.get(pk=world.names["shop"]), world.users["customer"], world.users["staff"]
    now, values = timezone.now(), [{"value": "Green", "meta": "#2e7d32"}]
    shirt = make_goods(shop, "fjell-shirt", product_type=Product.Kind.VARIABLE)
    category = Category.objects.create(name="Shirts", slug="shirts", type=shirt.type)
    shirt.categories.add(category)
    variation = make_variation(shirt, "Green")
    value = create_attribute(actor=shop.owner, shop_id=shop.pk, name="Colour", values=values, now=now).values.get()
    shirt.value_links.create(value=value)
    variation.value_links.create(value=value)
    order = buy(customer, (shirt, 2, variation))
    for status in (Order.Status.PROCESSING, Order.Status.COMPLETE):
        change_order_status(order_id=order.children.get().pk, status=status, actor=shop.owner, now=now)
    make_goods(shop, "sold-out-lamp", quantity=2).categories.add(category)
    file_report(user=customer, model_type="Question", model_id=world.names["reported"], message="Spam.", now=now)
    create_job(author=staff, product_ids=[shirt.pk], options=DescriptionOptions(), now=now)
    Shop.objects.create(owner=shop.owner, name="New", slug="new", is_active=False)


def _example(world: World, row: Row, identity: str) -> dict[str, Any]:
    with transaction.atomic():
        answer = world.request(identity, row.method, row.path, row.body)
        transaction.set_rollback(True)
    assert isinstance(answer, HttpResponse | StreamingHttpResponse)
    example = {"answered": _plain(_body(answer))}
    if row.body:
        sent = world.filled(row.body, identity)
        example["sent"] = _plain({name: _sendable(value) for name, value in sent.items()})
    return example


def _body(answer: HttpResponse | StreamingHttpResponse) -> Any:
    is_json = answer.headers["Content-Type"].startswith("application/json")
    content = answer.getvalue()
    return json.loads(content) if is_json else content.decode()


def _sendable(value: Any) -> Any:
    return "(a file)" if isinstance(value, bytes) else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value[:2]]
    if isinstance(value, str):
        for pattern, stand_in in PLAIN:
            value = re.sub(pattern, stand_in, value)
    return value
