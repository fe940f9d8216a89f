"""Sanctions of authors: what they forbid and until when, who may impose and lift them, and appeals against them."""

from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.test import Client
from django.utils import timezone, translation

from commerce.catalog.models import Product
from commerce.moderation.models import Notice, Sanction
from commerce.moderation.notices.delivery import send_notices
from commerce.moderation.sanctions import check_may_write, impose_sanction, lift_sanction
from commerce.reviews.models import Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError
from shared.audit.models import AuditEntry
from tests.commerce.conftest import ApiClient, make_user
from tests.commerce.moderation.factories import DAY, NOON

pytestmark = pytest.mark.django_db


def impose(user: User, moderator: User, kind: str = "suspension", **more: Any) -> Sanction:
    days = 7 if kind in ("limit", "suspension") else None
    return impose_sanction(
        **{"user_id": user.pk, "kind": kind, "reason": "Advertising.", "days": days, "now": NOON} | more,
        moderator=moderator,
    )


def test_a_suspended_user_may_not_write_and_reads_until_when(
    customer: User, moderator: User, lamp: Product, written: Review, client_of: ApiClient
):
    impose(customer, moderator, now=timezone.now())
    until = (timezone.now() + 7 * DAY).strftime("%d %B %Y")
    for path, body in (
        ("/api/reviews", {"product_id": lamp.pk, "rating": 5}),
        ("/api/questions", {"product_id": lamp.pk, "question": "Why?"}),
        ("/api/abusive_reports", {"model_type": "Review", "model_id": written.pk, "message": "Spam."}),
    ):
        refused = client_of(customer).post(path, body, content_type="application/json")
        assert (refused.status_code, refused.json()["code"]) == (403, "sanctioned"), path
        assert until in refused.json()["message"]
        assert "Advertising." in refused.json()["message"]


def test_a_sanction_ends_on_its_own_or_when_it_is_lifted(customer: User, moderator: User):
    impose(customer, moderator)
    with pytest.raises(ApiError, match="until 11 May 2026 12:00 UTC"):
        check_may_write(user=customer, now=NOON + 6 * DAY)
    check_may_write(user=customer, now=NOON + 7 * DAY)

    ban = impose(customer, moderator, "ban")
    with pytest.raises(ApiError, match="without an end"):
        check_may_write(user=customer, now=NOON + 1000 * DAY)
    lift_sanction(sanction_id=ban.pk, moderator=moderator, now=NOON + DAY)
    check_may_write(user=customer, now=NOON + 8 * DAY)
    actions = AuditEntry.objects.filter(target_type="Sanction").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["moderation.sanction_imposed"] * 2 + ["moderation.sanction_lifted"]


def test_a_limited_user_writes_three_times_a_day_and_a_warned_one_as_ever(
    customer: User, moderator: User, lamp: Product
):
    impose(customer, moderator, "warning")
    impose(customer, moderator, "limit")
    for _ in range(3):
        check_may_write(user=customer, now=NOON)
        Review.objects.create(
            user=customer, product=lamp, shop=lamp.shop, rating=1, created_at=NOON, updated_at=NOON, deleted_at=NOON
        )
    with pytest.raises(ApiError, match="You may write 3 reviews, questions and reports a day until"):
        check_may_write(user=customer, now=NOON + timedelta(hours=1))
    check_may_write(user=customer, now=NOON + timedelta(hours=25))


def test_the_user_is_told_by_a_notice_and_an_email(customer: User, moderator: User, client_of: ApiClient):
    sanction = impose(customer, moderator)
    assert send_notices() == 1
    assert "You may not write reviews" in str(mail.outbox[0].body)

    (notice,) = client_of(customer).get("/api/notices").json()["data"]
    assert (notice["kind"], notice["sanction_id"], notice["model_type"]) == ("sanction", sanction.pk, None)
    appeal = {"notice_id": notice["id"], "message": "No."}
    assert client_of(customer).post("/api/appeals", appeal, content_type="application/json").status_code == 409
    assert Notice.objects.count() == 1


@pytest.mark.parametrize(
    ("target", "more", "status", "message"),
    [
        ("moderator", {}, 422, "You cannot sanction yourself."),
        ("admin", {}, 403, "A super admin cannot be sanctioned."),
        ("other moderator", {}, 403, "Only a super admin can sanction a moderator."),
        ("customer", {"user_id": 10**9}, 422, "There is no user with this id."),
        ("customer", {"days": None}, 422, "Send a number of days from 1 to 365."),
        ("customer", {"days": 366}, 422, "Ensure this value is less than or equal to 365."),
        ("customer", {"kind": "ban"}, 422, "Only a limit and a suspension end after days: leave this out."),
        ("customer", {"kind": "exile"}, 422, '"exile" is not a valid choice.'),
    ],
)
def test_impossible_sanctions_are_refused(
    client_of: ApiClient, admin: User, customer: User, moderator: User, target: str, more: dict[str, Any], status: int,
    message: str,
):  # fmt: skip
    users = {"moderator": moderator, "admin": admin, "customer": customer}
    users["other moderator"] = make_user(Role.MODERATOR, "other")
    body = {"user_id": users[target].pk, "kind": "suspension", "days": 3, "reason": "Spam."} | more
    refused = client_of(moderator).post("/api/sanctions", body, content_type="application/json")

    assert (refused.status_code, refused.json()["message"]) == (status, message)
    assert not Sanction.objects.exists()


def test_the_same_kind_twice_is_409(client_of: ApiClient, customer: User, moderator: User):
    body = {"user_id": customer.pk, "kind": "suspension", "days": 3, "reason": "Spam.", "note": "Third time."}
    made = client_of(moderator).post("/api/sanctions", body, content_type="application/json")
    assert (made.status_code, made.json()["note"]) == (201, "Third time.")
    assert client_of(moderator).post("/api/sanctions", body, content_type="application/json").status_code == 409
    (own,) = client_of(customer).get("/api/sanctions").json()["data"]
    assert "note" not in own  # for moderators only


@pytest.mark.parametrize(
    ("language", "name"),
    [("en", "Suspension of user"), ("de", "Sperre (Benutzer"), ("es", "Suspensión (usuario")],
)
def test_its_name_is_in_the_moderators_language(customer: User, moderator: User, language: str, name: str):
    sanction = impose(customer, moderator)
    with translation.override(language):
        assert str(sanction).startswith(f"{name} {customer.pk}")


def test_an_appeal_is_kept_or_overturned(client_of: ApiClient, customer: User, moderator: User):
    first, second = impose(customer, moderator, "ban"), impose(customer, moderator, "suspension", now=timezone.now())
    for sanction in (first, second):
        path = f"/api/sanctions/{sanction.pk}/appeal"
        made = client_of(customer).post(path, {"message": "No."}, content_type="application/json")
        assert (made.status_code, made.json()["appeal"]) == (200, "open")
        assert client_of(customer).post(path, {"message": "No."}, content_type="application/json").status_code == 409
    assert client_of(moderator).post(f"/api/sanctions/{first.pk}/keep").json()["appeal"] == "kept"
    assert client_of(moderator).post(f"/api/sanctions/{first.pk}/keep").status_code == 409
    assert client_of(moderator).delete(f"/api/sanctions/{second.pk}").json() is True
    assert client_of(moderator).delete(f"/api/sanctions/{second.pk}").status_code == 409
    assert Sanction.objects.get(pk=second.pk).appeal == "overturned"
    told = {notice["sanction_id"]: notice for notice in client_of(customer).get("/api/notices").json()["data"][:2]}
    assert (told[first.pk]["title"], told[second.pk]["title"]) == ("Your sanction stays", "Your sanction was lifted")
    assert "without an end." in told[first.pk]["text"]
    assert send_notices() == 4


def test_moderators_impose_and_lift_in_the_admin(customer: User, moderator: User):
    client, base = Client(), "/admin/commerce_moderation/sanction/"
    client.force_login(moderator)
    form = {"user_id": customer.pk, "kind": "suspension", "days": "", "reason": "Spam.", "note": ""}

    assert "Send a number of days" in client.post(f"{base}add/", form).content.decode()
    assert client.post(f"{base}add/", form | {"days": "3"}).status_code == 302
    sanction = Sanction.objects.get()
    assert client.get(f"{base}{sanction.pk}/change/").status_code == 200
    client.post(base, {"action": "lift", "_selected_action": sanction.pk})
    assert Sanction.objects.get().lifted_by == moderator
