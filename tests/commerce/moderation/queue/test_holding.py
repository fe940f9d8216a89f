"""Holding rules: what they see through, held content out of everything public, decisions about it, and the preview."""

# ruff: noqa: RUF001 the lookalikes are what is tested

from datetime import timedelta

import pytest
from django.core import mail
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from commerce.analytics.models import LedgerEntry
from commerce.catalog.models import Product
from commerce.moderation.decisions import Conflict
from commerce.moderation.models import Case, Decision, HoldingRule, Notice
from commerce.moderation.models.text_matching import MatchedText, find_hosts
from commerce.moderation.notices.delivery import send_notices
from commerce.moderation.queue.bulk import preview_decision
from commerce.moderation.queue.holding import preview_rule
from commerce.moderation.queue.listing import QueueFilters, filter_queue, queue_page
from commerce.moderation.queue.statements import ReportingPeriod, newest_statements
from commerce.reviews.models import Question, Review
from commerce.reviews.services import ask_question, delete_review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.webhooks.models import Delivery
from tests.commerce.conftest import ApiClient, confirmed, make_user
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, case_of, decide, reporter, undo
from tests.commerce.orders.factories import make_goods, other_shop
from tests.commerce.reviews.factories import ask, review

pytestmark = pytest.mark.django_db
RULES = "/admin/commerce_moderation/holdingrule/"


def make_rule(entries: str = "viagra\nget rich quick", kind: str = "words", **fields: object) -> HoldingRule:
    rule = HoldingRule(name="Advertising", kind=kind, entries=entries, **fields)
    rule.full_clean()
    rule.save()
    return rule


@pytest.fixture
def held(lamp: Product, customer: User) -> Review:
    make_rule()
    return review(customer, lamp, 5, comment="Buy V i a g r a here")


@pytest.mark.parametrize(
    "text",
    [
        "viagra", "Buy VIAGRA!", "v i a g r a", "V.I.A.G.R.A", "v-i-a_g r a", "ｖｉａｇｒａ", "víágrã",
        "v\u200bi\u200bagra",
        "via\u3164gra", "ᴠɪᴀɢʀᴀ", "🆅🅸🅰🅶🆁🅰", "🅥🅘🅐🅖🅡🅐", "🇻🇮🇦🇬🇷🇦",
        "vіаgrа", "VΙΑGRΑ", "get rich quick", "Get  RICH,\nquick", "getrichquick", "g e t rich qui ck",
    ],
)  # fmt: skip
def test_words_are_seen_through_case_spacing_and_lookalikes(text: str):
    words = MatchedText.of(f"Hello, {text} and more")

    assert any(words.contains(entry) for entry in ("viagra", "get rich quick"))


@pytest.mark.parametrize("text", ["", "niagra", "viagras", "aviagra", "via grand", "get rich", "rich quick get", "💊"])
def test_other_texts_are_not_held(text: str):
    words = MatchedText.of(text)

    assert not any(words.contains(entry) for entry in ("viagra", "get rich quick"))


def test_scripts_without_spaces_are_searched_inside_a_sentence():
    assert MatchedText.of("我要买假货谢谢").contains("假货")
    assert MatchedText.of("ВИАГРА дёшево").contains("виагра")


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("See https://Shop.Example/x?y=1 now", ["shop.example"]),
        ("(www.spam.example)", ["spam.example"]),
        ("cheap at spam.com!", ["spam.com"]),
        ("spam [dot] com and spam . net", ["spam.com", "spam.net"]),
        ("http://user:word@bad.example:80/", ["bad.example"]),
        ("ｓｐａｍ．ｃｏｍ", ["spam.com"]),
        (
            "spam。com, see:spam.net. “spam.org” `spam.info` spam.biz–now spam.eu\\x spam .shop",
            [
                "spam.com",
                "spam.net",
                "spam.org",
                "spam.info",
                "spam.biz",
                "spam.eu",
                "spam.shop",
            ],
        ),
        ("ѕраm.соm and ㏋spam.com_", ["spam.com", "hpspam.com"]),
        ("Good.Next one. 3.5 stars, e.g. fine, me@home.com", []),
    ],
)
def test_hosts_of_links(text: str, hosts: list[str]):
    assert find_hosts(text) == hosts


def test_matching_is_linear_in_hostile_texts():
    for text in ("a" * 100_000, "a." * 50_000, "a " * 50_000, "http://" * 15_000, "é" * 50_000, "a.com:=" * 14_000):
        find_hosts(text)
        assert not MatchedText.of(text).contains("b" * 100)


@pytest.mark.parametrize("entry", ["(a+)+$", "a*", "[ab]", "x|y", "\\d", "...", "\u200b", "a" * 101])
def test_an_entry_that_is_an_expression_or_empty_is_refused(entry: str):
    with pytest.raises(ValidationError):
        make_rule(entry)
    with pytest.raises(ValidationError):
        make_rule("")
    with pytest.raises(ValidationError, match="is no host"):
        make_rule("localhost", "links")
    with pytest.raises(ValidationError):
        make_rule("\n".join(["word"] * 501))


def test_held_content_is_in_the_queue_and_nowhere_public(
    client_of: ApiClient, lamp: Product, customer: User, admin: User, shop: Shop
):
    make_rule()
    sent = client_of(customer).post(
        "/api/reviews",
        {"product_id": lamp.pk, "rating": 5, "comment": "viagra"},
        content_type="application/json",
    )
    asked = ask(customer, lamp, "Viagra?")

    assert sent.status_code == 201
    written = Review.objects.get()
    anyone = client_of(None)
    assert anyone.get("/api/reviews").json()["data"] == anyone.get("/api/questions").json()["data"] == []
    assert anyone.get(f"/api/reviews/{written.pk}").status_code == 404
    lamp.refresh_from_db()
    assert (lamp.rating_sum, lamp.rating_count) == (0, 0)
    assert not LedgerEntry.objects.filter(reviews__gt=0).exists()
    assert not Delivery.objects.exists()
    items = queue_page(filter_queue(QueueFilters(hiding="held"), now=timezone.now()), now=timezone.now())
    assert {(item.content, item.case.hiding, item.case.reports_count) for item in items} == {
        (written, "held", 0), (asked, "held", 0),
    }  # fmt: skip
    assert all(item.case.due_at for item in items)
    decision = case_of(written).last_decision
    assert decision is not None
    assert (decision.action, decision.moderator, decision.note) == ("hidden", None, "Held by the rule Advertising.")


def test_rejecting_publishes_and_undo_holds_again(held: Review, lamp: Product, admin: User):
    decision = decide("rejected", held, admin)
    lamp.refresh_from_db()
    held.refresh_from_db()
    assert (held.is_visible, lamp.rating_count, case_of(held).state) == (True, 1, "rejected")
    assert LedgerEntry.objects.filter(reviews=1, stars=5).exists()

    undo(decision, admin)
    lamp.refresh_from_db()
    held.refresh_from_db()
    case = case_of(held)
    assert (held.is_visible, lamp.rating_count) == (False, 0)
    assert (case.state, case.hiding, case.is_waiting) == ("open", "held", True)


def test_accepting_takes_down_and_the_author_may_appeal(held: Review, lamp: Product, admin: User, customer: User):
    decision = decide("accepted", held, admin, at=NOON + MINUTE)
    held.refresh_from_db()
    lamp.refresh_from_db()

    assert (held.deleted_at is None, lamp.rating_count) == (False, 0)
    assert decision.notices.get(user=customer).kind == "content_removed"
    removed = newest_statements(ReportingPeriod(first=NOON.date(), last=NOON.date()), 1)[0]
    assert (removed.is_detected, removed.automation, removed.source) == (
        True, "AUTOMATED_DECISION_PARTIALLY", "SOURCE_VOLUNTARY",
    )  # fmt: skip


@pytest.mark.parametrize("action", ["hidden", "shown", "warned", "escalated"])
def test_every_other_decision_leaves_it_waiting(held: Review, admin: User, action: str):
    decision = decide(action, held, admin)

    assert case_of(held).is_waiting
    undo(decision, admin)
    assert case_of(held).hiding == "held"


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("rejected", "content_published"),
        ("shown", "content_published"),
        ("accepted", "content_removed"),
    ],
)
def test_the_author_is_told_of_the_hold_and_of_its_end(
    held: Review, customer: User, admin: User, action: str, told: str
):
    now = held.created_at
    (notice,) = Notice.objects.for_user(customer, now)
    assert (notice.kind, notice.title, notice.appeal_until) == (
        "content_held", "Your review waits for a moderator", None,
    )  # fmt: skip
    assert "Your review of Velmo lamp is not public yet." in notice.text
    assert "Buy V i a g r a here" in notice.text
    assert "Advertising" not in notice.text
    confirmed(customer)
    assert (send_notices(clock=lambda: now), mail.outbox[0].to) == (1, [customer.email])
    assert mail.outbox[0].body.strip().endswith("you will receive the decision.")

    undo(decide(action, held, admin, at=now), admin, at=now)
    assert list(Notice.objects.filter(user=customer)) == [notice]
    decide("hidden", held, admin, at=now)
    decide(action, held, admin, at=now + MINUTE, reason="Thank you for waiting.")
    told_later = Notice.objects.for_user(customer, now + 20 * MINUTE)
    assert [each.kind for each in told_later] == [told, "content_held"]
    assert "Thank you for waiting." in told_later[0].text
    assert send_notices(clock=lambda: now + 20 * MINUTE) == 1


def test_no_email_about_held_content_goes_to_an_unconfirmed_address(client_of: ApiClient, held: Review, customer: User):
    assert (send_notices(), mail.outbox, Notice.objects.get().mail_due_at) == (0, [], None)

    (notice,) = client_of(customer).get("/api/notices").json()["data"]
    assert (notice["kind"], "Buy V i a g r a here" in notice["text"]) == ("content_held", True)


def test_a_warning_about_held_content_does_not_say_that_it_is_kept(held: Review, customer: User, admin: User):
    decide("warned", held, admin, reason="Please do not advertise.")

    notice = Notice.objects.get(user=customer, kind="warning")
    assert "kept it" not in notice.text
    assert "Whether it is public is decided separately. Please do not advertise." in notice.text
    decide("rejected", held, admin, at=NOON + MINUTE)
    decide("warned", held, admin, at=NOON + DAY)
    assert "kept it, with a warning" in Notice.objects.filter(user=customer, kind="warning")[0].text


def test_held_content_is_hidden_for_now_once(held: Review, admin: User):
    first = decide("hidden", held, admin)
    decide("warned", held, admin, at=NOON + DAY)

    with pytest.raises(Conflict, match="A moderator has hidden this already"):
        decide("hidden", held, admin, at=NOON + 2 * DAY)
    case = case_of(held)
    assert preview_decision(case_ids=[case.pk], action="hidden").refused == {
        case.pk: "A moderator has hidden this already."
    }
    assert case.decisions.filter(action="hidden").exclude(pk=first.pk).get().moderator is None


@pytest.mark.parametrize(("action", "told"), [("rejected", 1), ("shown", 1), ("escalated", 0)])
def test_a_preview_counts_authors_who_learn_that_their_content_is_public(held: Review, action: str, told: int):
    assert preview_decision(case_ids=[case_of(held).pk], action=action).notified_authors == told


def test_held_content_may_be_hidden_again_after_an_undo(held: Review, admin: User):
    undo(decide("hidden", held, admin), admin)

    assert preview_decision(case_ids=[case_of(held).pk], action="hidden").items == 1
    decide("hidden", held, admin, at=NOON + DAY)


def test_of_held_texts_one_a_day_is_emailed(held: Review, lamp: Product, customer: User):
    for text, age in (("viagra?", DAY / 2), ("Viagra!", DAY + MINUTE)):
        ask_question(user=customer, product_id=lamp.pk, question=text, now=held.created_at + age)
    ask(reporter("ann"), lamp, "viagra")

    notices = Notice.objects.filter(user=customer, kind="content_held").order_by("id")
    assert [notice.mail_due_at is None for notice in notices] == [False, True, False]
    assert Notice.objects.exclude(user=customer).get().mail_due_at is not None


def test_an_author_deletes_held_content(held: Review, customer: User):
    delete_review(review_id=held.pk, actor=customer, now=NOON)

    assert (case_of(held).state, case_of(held).hiding) == ("closed", "")


def test_a_rule_is_off_where_it_is_switched_off(lamp: Product, shop: Shop, customer: User):
    rule = make_rule()
    rule.shops_off.add(shop)
    tent = make_goods(other_shop(), "tent")

    assert review(customer, lamp, 5, comment="viagra").is_visible
    assert not review(customer, tent, 5, comment="viagra").is_visible
    HoldingRule.objects.update(is_active=False)
    assert ask(customer, tent, "viagra").is_visible
    assert Case.objects.count() == Decision.objects.count() == 1


def test_links_and_repetitions(lamp: Product, customer: User):
    make_rule("spam.example", "links")
    make_rule("", "repetition", repetitions=3)

    assert ask(customer, lamp, "See good.com").is_visible
    assert not ask(customer, lamp, "See www.a.spam.example/x").is_visible
    texts = ["Is it good?", "is it GOOD", "Is. It. Good."]
    assert [ask(customer, lamp, text).is_visible for text in texts] == [True, True, False]
    assert ask(reporter("ann"), lamp, "Is it good?").is_visible
    assert [ask(customer, lamp, text).is_visible for text in ("💊", "🙂", "🎁", "💊")] == [True] * 4
    HoldingRule.objects.filter(kind="links").update(entries="spam.tk\nhttps://www.bad.example/shop")
    for text in ("See spam.tk/x", "See ѕраm.tk", "See bad.example or http://www.bad.example"):
        assert not ask(customer, lamp, text).is_visible
    assert ask(customer, lamp, "See nospam.tk and http://example").is_visible
    Question.objects.update(created_at=timezone.now() - timedelta(days=400))
    assert ask(customer, lamp, "Is it good?").is_visible
    HoldingRule.objects.filter(kind="links").update(entries="")
    assert not ask(customer, lamp, "See good.com").is_visible


def test_the_preview_shows_what_a_rule_would_have_held(lamp: Product, shop: Shop, customer: User, admin: User):
    review(customer, lamp, 5, comment="Cheap viagra here")
    for text in ("Fine?", "VIAGRA?", "fine"):
        ask(customer, lamp, text)
    now = timezone.now()
    Review.objects.update(created_at=now - DAY)
    Question.objects.update(created_at=now - 2 * DAY)
    client = Client()
    client.force_login(admin)
    form = {"name": "New", "kind": "words", "entries": "viagra", "repetitions": 3, "is_active": "on", "_preview": "1"}

    shown = client.post(f"{RULES}add/", form)
    assert (shown.context["preview"].checked, shown.context["preview"].held) == (4, 2)
    assert "Cheap viagra here" in shown.content.decode()
    assert client.post(f"{RULES}add/", form | {"shops_off": [shop.pk]}).context["preview"].checked == 0
    assert not HoldingRule.objects.exists()
    refused = client.post(f"{RULES}add/", form | {"entries": "(a+)+"})
    assert "regular expression" in refused.content.decode()
    assert preview_rule(HoldingRule(kind="repetition", repetitions=2), now=now).held == 1
    assert preview_rule(HoldingRule(kind="words", entries="viagra"), now=now + 40 * DAY).checked == 0


def test_moderators_read_rules_and_super_admins_write_them(admin: User, held: Review):
    client = Client()
    client.force_login(make_user(Role.MODERATOR))
    rule = HoldingRule.objects.get()

    assert client.get(RULES).status_code == client.get(f"{RULES}{rule.pk}/change/").status_code == 200
    form = {"name": "New", "kind": "words", "entries": "x", "repetitions": 3}
    for path in (f"{RULES}add/", f"{RULES}{rule.pk}/change/"):
        for more in ({}, {"_preview": "1"}):
            assert client.post(path, form | more).status_code == 403
    item = client.get(f"/admin/commerce_moderation/case/{case_of(held).pk}/change/").content.decode()
    assert "Held by a rule: nobody has read it yet." in item
    assert 'value="hidden"' not in item
    client.force_login(admin)
    assert client.post(f"{RULES}add/", form).status_code == 302
    assert client.post(f"{RULES}{rule.pk}/delete/", {"post": "yes"}).status_code == 302
