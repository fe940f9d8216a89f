"""Events of shops, announced to the webhooks of the shop's owner and of super admins.

Call these functions in the transaction of the change, so that both are committed or neither. They cost one query where
nobody listens. Messages contain ids and statuses, no text of people: receivers read the rest from the API.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Q, TextChoices

from commerce.shops.models import Shop
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


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """An event of one shop, with the data of its message."""

    event: ShopEvent
    shop_id: int
    data: Mapping[str, Any]


def announce_new_orders(orders: Iterable["Order"], *, now: datetime) -> None:
    """Announce the orders of shops that a customer has placed."""
    _announce([_of_order(ShopEvent.ORDER_CREATED, order, {}) for order in orders], now)


def announce_order_statuses(changes: Iterable[tuple["Order", str]], *, now: datetime) -> None:
    """Announce the orders of shops that have another status than before, each with the former one."""
    changed = [(order, former) for order, former in changes if order.order_status != former]
    event = ShopEvent.ORDER_STATUS_CHANGED
    _announce([_of_order(event, order, {"previous_status": former}) for order, former in changed], now)


def announce_product_updates(products: Iterable["Product"], *, now: datetime) -> None:
    """Announce changed products, MAX_PRODUCTS_PER_MESSAGE of a shop in one message."""
    by_shop = defaultdict[int, list[int]](list)
    for product in products:
        by_shop[product.shop_id].append(product.pk)
    announcements = [
        Announcement(
            event=ShopEvent.PRODUCT_UPDATED,
            shop_id=shop_id,
            data={"product_ids": ids[first : first + MAX_PRODUCTS_PER_MESSAGE]},
        )
        for shop_id, ids in by_shop.items()
        for first in range(0, len(ids), MAX_PRODUCTS_PER_MESSAGE)
    ]
    _announce(announcements, now)


def announce_review(review: "Review", *, now: datetime) -> None:
    """Announce a new review."""
    data = {"review_id": review.pk, "product_id": review.product_id, "rating": review.rating}
    _announce([Announcement(event=ShopEvent.REVIEW_CREATED, shop_id=review.shop_id, data=data)], now)


def announce_decision(
    decision: "Decision", content: "Review | Question", *, now: datetime, is_undone: bool = False
) -> None:
    """Announce a decision about reports on content in a shop, or that it was undone."""
    data = {
        "decision_id": decision.pk,
        "model_type": type(content).__name__,
        "model_id": content.pk,
        "product_id": content.product_id,
        "action": "undone" if is_undone else decision.action,
    }
    _announce([Announcement(event=ShopEvent.REPORT_DECIDED, shop_id=content.shop_id, data=data)], now)


def _of_order(event: ShopEvent, order: "Order", more: Mapping[str, Any]) -> Announcement:
    data = {
        "order_id": order.pk,
        "parent_id": order.parent_id,
        "tracking_number": order.tracking_number,
        "order_status": order.order_status,
        "total": to_number(order.total, order.currency),
        "currency": order.currency,
    }
    return Announcement(event=event, shop_id=order.shop_id or 0, data=data | dict(more))


@transaction.atomic(savepoint=False)
def _announce(announcements: Sequence[Announcement], now: datetime) -> None:
    """Create the deliveries of these events to the subscribed webhooks of the shops' owners and of super admins."""
    if not announcements:
        return
    shops = Shop.objects.filter(pk__in={announcement.shop_id for announcement in announcements})
    is_owner = Q(user__role=Role.STORE_OWNER, user__in=shops.values("owner"))
    receivers = Endpoint.objects.filter(is_owner | Q(user__role=Role.SUPER_ADMIN), user__is_active=True)
    endpoints = receivers.select_related("user").lock_subscribed(*{each.event.value for each in announcements})
    if not endpoints:
        return
    owner_ids = dict(shops.values_list("pk", "owner_id"))
    Delivery.objects.bulk_create(
        build_delivery(
            endpoint=endpoint, url=endpoint.url, event=announcement.event, body=_body(announcement, now), now=now
        )
        for announcement in announcements
        for endpoint in endpoints
        if announcement.event in endpoint.events
        and (endpoint.user.role == Role.SUPER_ADMIN or owner_ids.get(announcement.shop_id) == endpoint.user_id)
    )


def _body(announcement: Announcement, now: datetime) -> str:
    return event_body(announcement.event, {"shop_id": announcement.shop_id, **announcement.data}, now)
