"""The statistics page, the badge of the sidebar, the list of decisions, and translations."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation

from commerce.reviews.models import Review
from shared.accounts.models import User
from tests.commerce.moderation.factories import DAY, MINUTE, case_of, decide, report, reporter

STATISTICS = "/admin/commerce_moderation/case/statistics/"
DECISIONS = "/admin/commerce_moderation/decision/"


@pytest.fixture
def moderator(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def test_charts_without_data_have_a_message(moderator: Client):
    shown = moderator.get(STATISTICS).content.decode()

    assert "Nothing waits." in shown
    assert "Nothing was decided in these days." in shown
    assert "No reports were decided about in these days." in shown
    assert "<svg" not in shown


def test_charts_have_titles_and_axes(moderator: Client, admin: User, written: Review, asked: Review):
    report(written, reporter("ann"), at=timezone.now() - DAY)
    decide("accepted", written, admin, at=timezone.now())
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


def test_the_sidebar_shows_the_length_and_age_of_the_queue(moderator: Client, written: Review):
    assert "minutes" not in moderator.get("/admin/").content.decode()
    report(written, reporter("ann"), at=timezone.now() - 5 * MINUTE)

    assert "1 · 5 minutes" in moderator.get("/admin/").content.decode()


def test_the_queue_is_counted_once_and_only_where_the_sidebar_is(moderator: Client, written: Review):
    report(written, reporter("ann"), at=timezone.now() - 5 * MINUTE)
    counted = []
    for path in (DECISIONS, f"{DECISIONS}?_popup=1"):
        with CaptureQueriesContext(connection) as queries:
            assert moderator.get(path).status_code == 200
        counted.append(sum("MIN(" in query["sql"] for query in queries))

    assert counted == [1, 0]


def test_the_list_of_decisions_is_read_only_and_links_to_cases(moderator: Client, admin: User, written: Review):
    report(written, reporter("ann"), at=timezone.now() - DAY)
    made = decide("accepted", written, admin, at=timezone.now() - DAY, note="Seen before.")

    shown = moderator.get(DECISIONS).content.decode()

    assert f"/admin/commerce_moderation/case/{case_of(written).pk}/change/" in shown
    assert "Taken down" in shown
    assert "Seen before." in shown
    assert moderator.post(f"/admin/commerce_moderation/decision/{made.pk}/change/").status_code == 403
    assert moderator.get("/admin/commerce_moderation/decision/add/").status_code == 403


def test_each_browser_gets_the_language_that_it_requests(moderator: Client, written: Review):
    report(written, reporter("ann"), at=timezone.now() - DAY)

    for requested, language, shown in (
        ("de-AT,de;q=0.9", "de", "1 Eintrag wartet"),
        ("es-MX,es;q=0.9", "es", "1 elemento pendiente"),
    ):
        page = moderator.get("/admin/commerce_moderation/case/", headers={"Accept-Language": requested})
        assert f'<html lang="{language}"' in page.content.decode()
        assert shown in page.content.decode()
        assert page.headers["Content-Language"] == language
    assert translation.get_language() == "en"
    assert "1 item waits" in moderator.get("/admin/commerce_moderation/case/").content.decode()
