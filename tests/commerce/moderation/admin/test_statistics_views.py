"""The page of figures, the sidebar's counter, the list of decisions, and German."""

import pytest
from django.test import Client
from django.utils import timezone, translation

from commerce.reviews.models import Review
from shared.accounts.models import User
from tests.commerce.moderation.factories import DAY, MINUTE, case_of, decide, report, reporter

STATISTICS = "/admin/commerce_moderation/case/statistics/"


@pytest.fixture
def moderator(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def test_an_empty_shop_has_charts_that_say_so(moderator: Client):
    shown = moderator.get(STATISTICS).content.decode()

    assert "Nothing waits." in shown
    assert "Nothing was decided in these days." in shown
    assert "No reports were decided about in these days." in shown
    assert "<svg" not in shown


def test_one_decision_and_one_item_are_drawn_with_titles_and_axes(
    moderator: Client, admin: User, written: Review, asked: Review
):
    report(written, reporter("ann"), at=timezone.now() - DAY)
    decide("accept_report", written, admin, at=timezone.now())
    report(asked, reporter("bea"), at=timezone.now() - 3 * DAY)

    answer = moderator.get(STATISTICS)

    ages, decisions, agreement = answer.context["charts"]
    assert [row[1] for row in ages.rows] == ["0", "0", "1", "0"]
    assert decisions.rows[-1][1:] == ["1", "0", "0"]
    assert agreement.rows[-1][1:] == ["100%", "1"]
    shown = answer.content.decode()
    assert shown.count("<svg") == 3
    assert shown.count('class="mod-axis-title"') == 6
    assert "3 days" in shown


def test_the_sidebar_tells_how_much_waits_and_how_long(moderator: Client, written: Review):
    assert "minutes" not in moderator.get("/admin/").content.decode()
    report(written, reporter("ann"), at=timezone.now() - 5 * MINUTE)

    assert "1 · 5 minutes" in moderator.get("/admin/").content.decode()


def test_decisions_are_a_list_that_leads_to_their_items_and_is_not_written(
    moderator: Client, admin: User, written: Review
):
    report(written, reporter("ann"), at=timezone.now() - DAY)
    made = decide("accept_report", written, admin, at=timezone.now() - DAY, note="Seen before.")

    shown = moderator.get("/admin/commerce_moderation/decision/").content.decode()

    assert f"/admin/commerce_moderation/case/{case_of(written).pk}/change/" in shown
    assert "Taken down" in shown
    assert "Seen before." in shown
    assert moderator.post(f"/admin/commerce_moderation/decision/{made.pk}/change/").status_code == 403
    assert moderator.get("/admin/commerce_moderation/decision/add/").status_code == 403


def test_a_browser_that_asks_for_german_gets_german_and_the_next_one_english(moderator: Client, written: Review):
    report(written, reporter("ann"), at=timezone.now() - DAY)

    german = moderator.get("/admin/commerce_moderation/case/", headers={"Accept-Language": "de-AT,de;q=0.9"})

    assert '<html lang="de"' in german.content.decode()
    assert "1 Eintrag wartet" in german.content.decode()
    assert german.headers["Content-Language"] == "de"
    assert translation.get_language() == "en"
    assert "1 item waits" in moderator.get("/admin/commerce_moderation/case/").content.decode()
