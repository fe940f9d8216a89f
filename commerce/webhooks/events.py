"""Events of shops, announced to the webhooks of the shop's owner and of super admins.

Call these functions in the transaction of the change, so that both are committed or neither. They cost one query where
nobody listens. Messages contain ids and statuses, no text of people: receivers read the rest from the API.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import TextChoices

from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.money import to_number
from shared.webhooks.models import Delivery, Endpoint
from shared.webhooks.services import build_delivery, event_body

if TYPE_CHECKING:  # these apps announce events here
    from commerce.catalog.models import Product
    from commerce.moderation.models import Decision
    from commerce.orders.models import Order
    from commerce.reviews.models import Question, Review

MAX_PRODUCTS_PER_MESSAGE = 500


class ShopEvent(TextChoices):
    """Events that webhooks subscribe to."""

    ORDER_CREATED = "order.created"
    ORDER_STATUS_CHANGED = "order.status_changed"
    PRODUCT_UPDATED = "product.updated"
    REVIEW_CREATED = "review.created"
    REPORT_DECIDED = "report.decided"


Payload = dict[str, Any]  # the data of a message, with its shop's id


def announce_new_orders(orders: Iterable["Order"], *, now: datetime) -> None:
    """Announce the orders of shops that a customer has placed."""
    _announce(ShopEvent.ORDER_CREATED, [_order_payload(order) for order in orders], now)


def announce_order_statuses(changes: Iterable[tuple["Order", str]], *, now: datetime) -> None:
    """Announce the orders of shops that have another status than before, each with the former one."""
    changed = [(order, former) for order, former in changes if order.order_status != former]
    payloads = [_order_payload(order) | {"previous_status": former} for order, former in changed]
    _announce(ShopEvent.ORDER_STATUS_CHANGED, payloads, now)


def announce_product_updates(products: Iterable["Product"], *, now: datetime) -> None:
    """Announce changed products, MAX_PRODUCTS_PER_MESSAGE of a shop in one message."""
    by_shop = defaultdict[int, list[int]](list)
    for product in products:
        by_shop[product.shop_id].append(product.pk)
    payloads = [
        {"shop_id": shop_id, "product_ids": ids[first : first + MAX_PRODUCTS_PER_MESSAGE]}
        for shop_id, ids in by_shop.items()
        for first in range(0, len(ids), MAX_PRODUCTS_PER_MESSAGE)
    ]
    _announce(ShopEvent.PRODUCT_UPDATED, payloads, now)


def announce_review(review: "Review", *, now: datetime) -> None:
    """Announce a new review."""
    payload = {
        "shop_id": review.shop_id,
        "review_id": review.pk,
        "product_id": review.product_id,
        "rating": review.rating,
    }
    _announce(ShopEvent.REVIEW_CREATED, [payload], now)


def announce_decision(
    decision: "Decision", content: "Review | Question", *, now: datetime, is_undone: bool = False
) -> None:
    """Announce a decision about reports on content in a shop, or that it was undone."""
    payload = {
        "shop_id": content.shop_id,
        "decision_id": decision.pk,
        "model_type": type(content).__name__,
        "model_id": content.pk,
        "product_id": content.product_id,
        "action": "undone" if is_undone else decision.action,
    }
    _announce(ShopEvent.REPORT_DECIDED, [payload], now)


def _order_payload(order: "Order") -> Payload:
    return {
        "shop_id": order.shop_id,
        "order_id": order.pk,
        "parent_id": order.parent_id,
        "tracking_number": order.tracking_number,
        "order_status": order.order_status,
        "total": to_number(order.total, order.currency),
        "currency": order.currency,
    }


@transaction.atomic(savepoint=False)
def _announce(event: ShopEvent, payloads: Sequence[Payload], now: datetime) -> None:
    """Create the deliveries of these messages to the subscribed webhooks of the shops' owners and of super admins."""
    if not payloads:
        return
    shops = Shop.objects.filter(pk__in={payload["shop_id"] for payload in payloads})
    owners = User.objects.filter(role=Role.STORE_OWNER, pk__in=shops.values("owner"))
    admins = User.objects.filter(role=Role.SUPER_ADMIN)
    # A union, since with OR the database reads the endpoints of all users.
    users = owners.order_by().values("pk").union(admins.order_by().values("pk"))
    receivers = Endpoint.objects.filter(user__in=users, user__is_active=True)
    endpoints = receivers.select_related("user").lock_subscribed(event)
    if not endpoints:
        return
    owner_ids = dict(shops.values_list("pk", "owner_id"))
    Delivery.objects.bulk_create(
        build_delivery(endpoint=endpoint, url=endpoint.url, event=event, body=event_body(event, payload, now), now=now)
        for payload in payloads
        for endpoint in endpoints
        if endpoint.user.role == Role.SUPER_ADMIN or owner_ids.get(payload["shop_id"]) == endpoint.user_id
    )
