"""Histories of authors, reporters, shops and products: events, order, paging, rights and links."""

import re

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from commerce.catalog.models import Product
from commerce.moderation.appeals import decide_appeal, file_appeal
from commerce.moderation.queue import history
from commerce.moderation.queue.history import HISTORY_PAGES, EventKind, HistoryCursor, HistoryPage
from commerce.moderation.sanctions import impose_sanction
from commerce.reviews.models import Question, Review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import make_user
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, case_of, decide, report, reporter, undo
from tests.commerce.orders.factories import make_goods, other_shop
from tests.commerce.reviews.factories import review

pytestmark = pytest.mark.django_db
PAGES = "/admin/commerce_moderation/case/history/"


@pytest.fixture
def desk(db: None) -> Client:
    client = Client()
    client.force_login(make_user(Role.MODERATOR))
    return client


@pytest.fixture
def happened(written: Review, asked: Question, admin: User, customer: User) -> User:
    """Report two texts, remove one, undo a hiding, overturn an appeal and suspend the author; return a reporter."""
    ann = reporter("ann")
    report(written, ann, message="It is spam.")
    removed = decide("accepted", written, admin, at=NOON + MINUTE, reason="An advertisement.", note="Again.")
    notice = removed.notices.get(user=customer)
    appeal = file_appeal(author=customer, notice_id=notice.pk, message="It is not.", now=NOON + DAY)
    decide_appeal(appeal_id=appeal.pk, overturn=True, moderator=admin, now=NOON + 2 * DAY)
    impose_sanction(user_id=customer.pk, kind="suspension", days=7, reason="Be kind.", moderator=admin, now=NOON)
    report(asked, ann, at=NOON + 3 * DAY, message="Not a question.")
    undo(decide("hidden", asked, admin, at=NOON + 4 * DAY), admin, at=NOON + 4 * DAY + MINUTE)
    report(asked, reporter("bob"), at=NOON + 5 * DAY)
    decide("rejected", asked, admin, at=NOON + 6 * DAY)
    return ann


def events(page: HistoryPage) -> list[str]:
    """Return the events of a page, each with what it is about."""
    return [
        f"{event.kind.name} {getattr(event.row, 'action', '')}".strip().lower()
        + (f" {event.case.model_type.lower()}" if event.case else "")
        for event in page.events
    ]


def test_an_author_has_reports_decisions_appeals_and_sanctions_in_order(happened: User, customer: User):
    page = HISTORY_PAGES["author"](customer.pk)

    assert events(page) == [
        "decision rejected question",
        "decision hidden question",
        "decision appeal_overturned review",
        "appeal review",
        "decision accepted review",
        "sanction",
    ]  # the reports were deleted with their rejection
    assert page.counts == {"reported": 2, "waiting": 0, "hidden": 0, "taken_down": 0, "appealed": 0}
    assert page.older is None
    assert page.events[0].text == "Call me?"


def test_a_reporter_keeps_the_decisions_about_reports_that_were_deleted(happened: User, customer: User):
    assert events(HISTORY_PAGES["reporter"](happened.pk)) == [
        "decision rejected question",
        "appeal review",
        "decision accepted review",
    ]
    assert events(HISTORY_PAGES["author"](happened.pk)) == []
    assert events(HISTORY_PAGES["reporter"](customer.pk)) == ["sanction"]


def test_a_shop_and_a_product_have_what_is_about_them_alone(happened: User, lamp: Product, shop: Shop):
    tent = make_goods(other_shop(), "tent")
    elsewhere = review(reporter("eve"), tent, 2)
    report(elsewhere, reporter("dan"))
    chair = make_goods(shop, "chair")
    about_chair = review(reporter("fay"), chair, 2)
    report(about_chair, reporter("gus"), at=NOON + 9 * DAY)

    of_lamp = events(HISTORY_PAGES["product"](lamp.pk))
    assert of_lamp[0] == "decision rejected question"
    assert len(of_lamp) == 5
    assert events(HISTORY_PAGES["shop"](shop.pk)) == ["report review", *of_lamp]
    assert events(HISTORY_PAGES["product"](tent.pk)) == events(HISTORY_PAGES["shop"](tent.shop_id)) == ["report review"]


def test_pages_follow_without_gaps_where_many_events_are_of_one_moment(
    lamp: Product, admin: User, monkeypatch: pytest.MonkeyPatch
):
    for number in range(4):
        content = review(reporter(f"author{number}"), lamp, 3)
        report(content, reporter(f"r{number}"))
        decide("hidden", content, admin)
    monkeypatch.setattr(history, "PAGE_SIZE", 3)

    seen, cursor = [], None
    while True:
        page = HISTORY_PAGES["product"](lamp.pk, before=cursor)
        seen += [(event.kind, event.row.pk) for event in page.events]
        if page.older is None:
            break
        cursor = HistoryCursor.parse(str(page.older))
        assert cursor == page.older

    assert len(seen) == len(set(seen)) == 8
    assert [kind for kind, _pk in seen] == [EventKind.DECISION] * 4 + [EventKind.REPORT] * 4


@pytest.mark.parametrize(
    "text", ["", "x", "1.2", "1.2.3.4", "1.2.x", "-1.0.0.0", f"{10**18}.1.1", f"{2**63}.1.1", "1.\u0661.2", "\x00.1.1"]
)
def test_an_invalid_cursor_is_the_first_page(desk: Client, happened: User, text: str):
    assert HistoryCursor.parse(text) is None
    answer = desk.get(f"{PAGES}reporter/{happened.pk}/", {"before": text})
    assert (answer.status_code, len(answer.context["lines"])) == (200, 3)


def test_a_page_costs_the_same_for_any_number_of_events(
    desk: Client, lamp: Product, admin: User, customer: User, django_assert_max_num_queries: DjangoAssertNumQueries
):
    for count in (1, 12):
        for number in range(count):
            content = review(reporter(f"author{count}-{number}"), lamp, 3)
            for one in range(3):
                report(content, reporter(f"r{count}-{number}-{one}"))
            decide("hidden", content, admin)
        with django_assert_max_num_queries(22):
            answer = desk.get(f"{PAGES}product/{lamp.pk}/")
        assert len(answer.context["lines"]) == min(count * 4, history.PAGE_SIZE)
    assert re.search(r'href="\?before=\d+\.\d\.\d+"', answer.content.decode())


def test_a_history_ends_after_its_newest_items(lamp: Product, monkeypatch: pytest.MonkeyPatch):
    for number in range(3):
        report(review(reporter(f"author{number}"), lamp, 3), reporter(f"r{number}"))
    monkeypatch.setattr(history, "MAX_CASES", 2)

    page = HISTORY_PAGES["product"](lamp.pk)

    assert (page.is_cut, page.counts["reported"], len(page.events)) == (True, 2, 2)


def test_pages_are_for_moderators_and_name_what_happened(
    desk: Client, happened: User, owner: User, customer: User, shop: Shop, lamp: Product, asked: Question
):
    paths = [f"author/{customer.pk}/", f"reporter/{happened.pk}/", f"shop/{shop.pk}/", f"product/{lamp.pk}/"]
    stranger = Client()
    for path in paths:
        assert stranger.get(f"{PAGES}{path}").status_code == 302
    for user in (owner, customer):
        stranger.force_login(user)
        assert stranger.get(f"{PAGES}{paths[0]}").status_code == 403

    author = desk.get(f"{PAGES}{paths[0]}").content.decode()
    for words in ("Be kind.", "An advertisement.", "Again.", "It is not.", "brought back", "undone", customer.email):
        assert words in author
    assert "0 of 2" in desk.get(f"{PAGES}{paths[1]}").content.decode()
    for path in paths[2:]:
        shown = desk.get(f"{PAGES}{path}").content.decode()
        assert "An advertisement." in shown
        for user in (customer, happened, owner):
            assert user.email not in shown
    for path in ("author/999999/", "buyer/1/", f"shop/{10**30}/"):
        assert desk.get(f"{PAGES}{path}").status_code == 404
    assert desk.post(f"{PAGES}{paths[0]}").status_code == 405


def test_hidden_items_are_named_above(desk: Client, asked: Question, admin: User, shop: Shop):
    report(asked, reporter("ann"))
    decide("hidden", asked, admin)

    shown = desk.get(f"{PAGES}shop/{shop.pk}/").content.decode()

    assert "Hidden now:" in shown
    assert f"/admin/commerce_moderation/case/{case_of(asked).pk}/change/" in shown


def test_the_item_and_the_forms_of_the_admin_link_to_histories(
    desk: Client, written: Review, admin: User, customer: User, shop: Shop, lamp: Product
):
    ann = reporter("ann")
    report(written, ann)
    item = desk.get(f"/admin/commerce_moderation/case/{case_of(written).pk}/change/").content.decode()
    for path in (f"author/{customer.pk}/", f"reporter/{ann.pk}/", f"shop/{shop.pk}/", f"product/{lamp.pk}/"):
        assert f'href="{PAGES}{path}"' in item

    desk.force_login(admin)
    for form, paths in (
        (f"accounts/user/{customer.pk}", [f"author/{customer.pk}/", f"reporter/{customer.pk}/"]),
        (f"commerce_shops/shop/{shop.pk}", [f"shop/{shop.pk}/"]),
        (f"commerce_catalog/product/{lamp.pk}", [f"product/{lamp.pk}/"]),
    ):
        shown = desk.get(f"/admin/{form}/change/").content.decode()
        for path in paths:
            assert f'href="{PAGES}{path}"' in shown
