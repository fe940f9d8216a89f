"""Events of the shop: what is announced, to whom, and that it is committed with its change."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
import standardwebhooks
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from commerce.catalog.services import change_product
from commerce.catalog.transfer.product_files import read_products
from commerce.catalog.transfer.product_import import import_products
from commerce.moderation.services import decide, file_report
from commerce.moderation.undo import undo_decision
from commerce.orders.services import decide_refund, request_refund
from commerce.shops.models import Shop
from commerce.webhooks.events import ShopEvent
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import change_user
from shared.webhooks.delivery.outbox import deliver_due
from shared.webhooks.models import Delivery, DeliveryState, Endpoint
from shared.webhooks.services import change_endpoint, create_endpoint
from shared.webhooks.tasks import delete_expired
from tests.commerce.conftest import make_user
from tests.commerce.databases import plan_of
from tests.commerce.orders.factories import buy, make_goods, move, other_shop
from tests.commerce.reviews.factories import review
from tests.webhook_receivers import respond_with, running_receiver

pytestmark = pytest.mark.django_db
PUBLIC = "https://8.8.8.8"


def listen(user: User, *events: ShopEvent, url: str = f"{PUBLIC}/hook") -> str:
    """Create a webhook and return its secret."""
    chosen = events or tuple(ShopEvent)
    return create_endpoint(user=user, url=url, events=chosen, is_enabled=True, now=timezone.now()).secret


def sent_to(user: User) -> list[tuple[str, dict[str, Any]]]:
    """Return the event and data of each delivery to the user, oldest first, and forget them."""
    rows = Delivery.objects.for_user(user).order_by("pk")
    bodies = [json.loads(row.body) for row in rows]
    rows.delete()
    return [(body["type"], body["data"]) for body in bodies]


def test_orders_are_announced_to_the_owner_of_each_shop(shop: Shop, customer: User):
    second = other_shop()
    listen(shop.owner)
    listen(second.owner, ShopEvent.ORDER_CREATED)

    order = buy(customer, (make_goods(shop), 2), (make_goods(second, "shade"), 1))

    for vendor in (shop, second):
        child = order.children.get(shop=vendor)
        data = {
            "shop_id": vendor.pk, "order_id": child.pk, "parent_id": order.pk,
            "tracking_number": child.tracking_number, "order_status": "pending", "total": child.total / 100,
            "currency": "EUR",
        }  # fmt: skip
        assert sent_to(vendor.owner) == [("order.created", data)]


def test_an_event_reads_only_the_webhooks_of_those_who_may_receive_it(shop: Shop, customer: User):
    listen(shop.owner)
    lamp = make_goods(shop)

    with CaptureQueriesContext(connection) as queries:
        buy(customer, (lamp, 1))

    table = Endpoint._meta.db_table
    read = next(query["sql"] for query in queries if f'FROM "{table}"' in query["sql"])
    assert re.search(f"SEARCH {table}|commerce_webhook_address_once", plan_of(read))


def test_each_change_of_a_status_is_announced_once(shop: Shop, customer: User):
    listen(shop.owner, ShopEvent.ORDER_STATUS_CHANGED)
    child = buy(customer, (make_goods(shop), 2)).children.get()

    move(child, "processing")
    move(child, "processing")
    refund = request_refund(customer=customer, order_id=child.pk, amount=None, reason="", now=timezone.now())
    decide_refund(refund_id=refund.pk, status="approved", actor=shop.owner, now=timezone.now())

    changes = [(data["previous_status"], data["order_status"]) for _, data in sent_to(shop.owner)]
    assert changes == [("pending", "processing"), ("processing", "refunded")]


def test_products_are_announced_by_the_message(shop: Shop):
    lamp, vase = make_goods(shop), make_goods(shop, "vase", name="Vase", sku="V-1")
    listen(shop.owner, ShopEvent.PRODUCT_UPDATED)
    now = timezone.now()

    change_product(actor=shop.owner, product_id=lamp.pk, values={"price": 900}, now=now)
    lines = read_products(f"id,name,type,price\n{lamp.pk},Lamp,home,7\n{vase.pk},Tall vase,home,8\n".encode())
    import_products(actor=shop.owner, shop_id=shop.pk, products=lines, now=now)

    assert sent_to(shop.owner) == [
        ("product.updated", {"shop_id": shop.pk, "product_ids": [lamp.pk]}),
        ("product.updated", {"shop_id": shop.pk, "product_ids": [lamp.pk, vase.pk]}),
    ]


def test_reviews_and_decisions_are_announced_without_their_text(shop: Shop, customer: User, admin: User):
    lamp = make_goods(shop)
    listen(shop.owner)
    now = timezone.now()

    written = review(customer, lamp, comment="It glows.")
    file_report(user=shop.owner, model_type="Review", model_id=written.pk, message="Spam.", now=now)
    decision = decide("accepted", model_type="Review", model_id=written.pk, moderator=admin, now=now)
    undo_decision(decision_id=decision.pk, moderator=admin, now=now)

    of_review = {"shop_id": shop.pk, "review_id": written.pk, "product_id": lamp.pk, "rating": 4}
    decided = {
        "shop_id": shop.pk, "decision_id": decision.pk, "model_type": "Review", "model_id": written.pk,
        "product_id": lamp.pk,
    }  # fmt: skip
    assert sent_to(shop.owner) == [
        ("review.created", of_review),
        ("report.decided", decided | {"action": "accepted"}),
        ("report.decided", decided | {"action": "undone"}),
    ]


def test_only_owners_and_super_admins_are_told_and_only_what_they_asked_for(shop: Shop, customer: User, admin: User):
    demoted, rival = make_user(Role.STORE_OWNER, "demoted"), other_shop().owner
    former = Shop.objects.create(owner=demoted, name="Former", slug="former")
    for user in (shop.owner, demoted, rival, admin):
        listen(user, ShopEvent.REVIEW_CREATED)
    User.objects.filter(pk=demoted.pk).update(role=Role.CUSTOMER)

    review(customer, make_goods(shop))
    review(customer, make_goods(former, "shade"))
    buy(customer, (make_goods(shop, "vase"), 1))

    assert [data["shop_id"] for _, data in sent_to(admin)] == [shop.pk, former.pk]
    assert [data["shop_id"] for _, data in sent_to(shop.owner)] == [shop.pk]
    assert sent_to(demoted) == sent_to(rival) == []


def test_whoever_lost_the_right_to_webhooks_gets_nothing_more(shop: Shop, customer: User, settings: Settings):
    owner, now = shop.owner, timezone.now()
    with running_receiver(respond_with(200)) as receiver:
        settings.WEBHOOK_ALLOW = frozenset({receiver.authority})
        for name in ("due", "later"):
            listen(owner, url=f"{receiver.url}/{name}")
        review(customer, make_goods(shop))
        later = Delivery.objects.filter(url__endswith="later")
        later.update(due_at=now + timedelta(hours=1))
        change_user(user=owner, name=owner.name, email=owner.email, role=Role.CUSTOMER, is_active=True)

        assert deliver_due() == 0
        assert Delivery.objects.get(url__endswith="due").state == DeliveryState.CANCELLED
        delete_expired()
        assert later.get().state == DeliveryState.CANCELLED
        change_user(user=owner, name=owner.name, email=owner.email, role=Role.STORE_OWNER, is_active=True)
        assert not Endpoint.objects.filter(is_enabled=True).exists()

        endpoint, _ = Endpoint.objects.for_user(owner)
        change_endpoint(
            user=owner, endpoint_id=endpoint.public_id, url=None, events=None, is_enabled=True, now=timezone.now()
        )
        review(make_user(Role.CUSTOMER, "second"), make_goods(shop, "shade"))
        delete_expired()
        assert deliver_due() == 1
    assert receiver.connections == 1


def test_an_event_is_rolled_back_with_its_change_and_costs_one_query_if_nobody_listens(shop: Shop, customer: User):
    lamp = make_goods(shop)
    with CaptureQueriesContext(connection) as queries:
        review(customer, lamp)
    assert sum("webhooks" in query["sql"] for query in queries) == 1
    listen(shop.owner)

    with transaction.atomic():
        buy(customer, (lamp, 1))
        assert Delivery.objects.count() == 1
        transaction.set_rollback(True)

    assert not Delivery.objects.exists()


def test_an_event_arrives_signed(shop: Shop, customer: User, settings: Settings):
    with running_receiver(respond_with(200)) as receiver:
        settings.WEBHOOK_ALLOW = frozenset({receiver.authority})
        secret = listen(shop.owner, url=receiver.url)
        review(customer, make_goods(shop))

        assert deliver_due() == 1

    (request,) = receiver.received
    message = standardwebhooks.Webhook(secret).verify(request.body, request.headers)
    assert (message["type"], message["data"]["shop_id"]) == ("review.created", shop.pk)
    assert Delivery.objects.get().state == DeliveryState.DELIVERED
