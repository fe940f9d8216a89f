"""Erasure of a user in the shop: the accounts and the log stay, with an id that names nobody."""

import json
from pathlib import Path

import pytest
from django.db.models import CharField, JSONField, Model, TextField
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from commerce.addresses.models import Address
from commerce.attachments.models import Attachment
from commerce.catalog.models import Product
from commerce.moderation.models import AbuseReport, Appeal, Notice
from commerce.orders.models import Order, Refund
from commerce.orders.services import request_refund
from commerce.reviews.models import Question, Review
from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.models import User
from shared.accounts.personal_data.erasure import erase_person
from shared.accounts.personal_data.export import export_person
from shared.api.errors import ApiError
from tests.commerce.attachments.conftest import Upload, files_in, upload  # noqa: F401  a fixture
from tests.commerce.attachments.samples import pdf_file
from tests.commerce.moderation.factories import decide, report, reporter
from tests.commerce.orders.factories import buy, make_goods, move
from tests.commerce.reviews.factories import ask, review

STREET = {"street_address": "1 Rue de Rivoli", "city": "Paris", "zip": "75001", "country": "FR"}
PERSONAL = ("Rivoli", "0123456", "Buy elsewhere", "Call me", "some customer", "some-customer@", "it broke")


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


@pytest.fixture
def bought(customer: User, lamp: Product, admin: User) -> Order:
    """Create a customer's data in every app: an address, an order, a review, a question."""
    now = timezone.now()
    Address.objects.create(
        customer=customer, title="Home", type="billing", address=STREET, created_at=now, updated_at=now
    )
    order = buy(customer, (lamp, 2), billing_address=STREET, shipping_address=STREET, customer_contact="0123456")
    for child in order.children.all():
        for status in ("processing", "complete"):
            move(child, status)
    order.refresh_from_db()
    review(customer, lamp, 1, comment="Buy elsewhere.")
    ask(customer, lamp, "Call me?")
    return order


# Texts that stay in rows whose other texts are erased: they are not written by the person, or do not name one.
RETAINED_TEXTS = {
    Order: {"tracking_number", "order_status", "currency", "payment_gateway"},
    Refund: {"status"},
    Review: set(),
    Question: set(),
    AbuseReport: {"model_type", "status", "standing"},
    Appeal: {"status"},
}
ERASED_TEXTS = {
    Order: {"customer_contact", "billing_address", "shipping_address"},
    Refund: {"reason"},
    Review: {"comment"},
    Question: {"question", "answer"},
    AbuseReport: {"message"},
    Appeal: {"message"},
}


@pytest.mark.parametrize("model", ERASED_TEXTS, ids=lambda model: model.__name__)
def test_every_text_of_a_row_that_stays_is_erased_or_listed(model: type[Model]):
    """A new text needs a rule in the `personal_data` of its app, and a test below."""
    types = (CharField, TextField, JSONField)
    texts = {field.name for field in model._meta.concrete_fields if isinstance(field, types)}
    assert texts == RETAINED_TEXTS[model] | ERASED_TEXTS[model]


def erase(user: User) -> None:
    erase_person(user=user, actor=None, now=timezone.now())


def in_the_tables(user: User) -> str:
    return "".join(export_person(user=user))


def test_an_export_has_all_personal_data(customer: User, bought: Order):
    told = json.loads(in_the_tables(customer))
    assert [row["address"]["city"] for row in told["commerce_addresses.Address.customer"]] == ["Paris"]
    assert {row["customer_contact"] for row in told["commerce_orders.Order.customer"]} >= {"0123456"}
    assert [row["comment"] for row in told["commerce_reviews.Review.user"]] == ["Buy elsewhere."]
    assert [row["question"] for row in told["commerce_reviews.Question.user"]] == ["Call me?"]


def test_erasure_leaves_no_personal_data_and_keeps_the_figures(customer: User, bought: Order, lamp: Product):
    money = Order.objects.order_by("pk").values_list("pk", "customer_id", "total", "order_status", "created_at")
    before = list(money)

    erase(customer)

    text = in_the_tables(customer)
    assert [words for words in PERSONAL if words.lower() in text.lower()] == []
    assert list(money) == before
    assert not Address.objects.exists()
    stars = Review.objects.get()
    assert (stars.rating, stars.comment, stars.is_visible) == (1, "", True)
    question = Question.objects.get()
    assert (question.question, question.is_visible) == ("", False)
    lamp.refresh_from_db()
    assert lamp.rating_count == 1


def test_erasure_keeps_the_data_of_others(customer: User, bought: Order, lamp: Product):
    other = reporter("other")
    theirs = review(other, lamp, 5, comment="Lovely.")
    erase(customer)
    theirs.refresh_from_db()
    assert theirs.comment == "Lovely."
    assert User.objects.get(pk=other.pk).is_active


@pytest.mark.parametrize("status", ["pending", "processing"])
def test_open_orders_prevent_erasure(customer: User, lamp: Product, status: str):
    order = buy(customer, (lamp, 1))
    if status == "processing":
        for child in order.children.all():
            move(child, "processing")
    with pytest.raises(ApiError, match=f"{order.tracking_number}.*Complete or cancel them first"):
        erase(customer)
    customer.refresh_from_db()
    assert customer.is_active


def test_undecided_refunds_prevent_erasure(customer: User, bought: Order):
    child = bought.children.get()
    request_refund(customer=customer, order_id=child.pk, amount=None, reason="it broke", now=timezone.now())
    with pytest.raises(ApiError, match="refund requests are not decided"):
        erase(customer)


def test_an_own_shop_prevents_erasure(owner: User, shop: Shop, admin: User):
    with pytest.raises(ApiError, match="They own shops: Corner"):
        erase(owner)
    Shop.objects.filter(pk=shop.pk).update(owner=admin)
    erase(owner)
    assert owner.name == "Erased"


def test_erased_staff_leave_their_shop_and_its_invitations(staff: User, shop: Shop, owner: User):
    now = timezone.now()
    common = {"shop": shop, "nonce": "0" * 32, "created_at": now, "expires_at": now}
    StaffInvitation.objects.create(email=staff.email, invited_by=owner, **common)
    other = StaffInvitation.objects.create(email="other@example.com", invited_by=staff, **common)

    erase(staff)

    assert not ShopStaff.objects.filter(user=staff.pk).exists()
    assert list(StaffInvitation.objects.all()) == [other]


@pytest.mark.django_db(transaction=True)
def test_uploads_are_erased_with_their_files_except_those_of_shops(
    upload: Upload,  # noqa: F811
    customer: User,
    lamp: Product,
    settings: Settings,
    tmp_path: Path,
):
    settings.MEDIA_ROOT = tmp_path / "media"
    answer = upload(("mine.pdf", pdf_file()), ("shown.pdf", pdf_file()))
    assert answer.status_code == 200, answer.content
    mine, shown = Attachment.objects.order_by("pk")
    Product.objects.filter(pk=lamp.pk).update(image=shown)

    erase(customer)

    assert list(Attachment.objects.all()) == [shown]
    assert [Path(path).name for path in files_in(tmp_path / "media")] == ["shown.pdf"]
    assert mine.pk != shown.pk


def test_moderation_decisions_stay_and_reports_lose_their_texts(
    customer: User, lamp: Product, admin: User, bought: Order
):
    content = Review.objects.get()
    filer = reporter("filer")
    report(content, filer, message="Rude about Rivoli.")
    decide("accepted", content, admin)
    assert Notice.objects.filter(user=filer).exists()

    erase(filer)

    text = in_the_tables(filer)
    assert "Rude" not in text
    assert json.loads(text)["commerce_moderation.AbuseReport.user"][0]["model_id"] == content.pk
    assert not Notice.objects.filter(user=filer).exists()


def test_the_api_refuses_an_erased_user(customer: User, bought: Order, client_of, lamp: Product):
    signed: Client = client_of(customer)
    assert signed.get("/api/me").status_code == 200
    erase(customer)
    assert signed.get("/api/me").status_code == 401
    shown = client_of(None).get(f"/api/reviews?product_id={lamp.pk}").content.decode()
    assert "Buy elsewhere" not in shown
