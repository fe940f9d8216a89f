"""Statements of reasons and the transparency report: figures, the CSV file, the page and its rights."""

import csv
import io
from datetime import date, timedelta

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from commerce.catalog.models import Product
from commerce.moderation.appeals import decide_appeal, file_appeal
from commerce.moderation.models import AbuseReport, ReportReason
from commerce.moderation.queue import statements
from commerce.moderation.queue.statements import COLUMNS, ReportingPeriod, newest_statements, write_statements
from commerce.moderation.queue.transparency import transparency_report
from commerce.moderation.sanctions import impose_sanction
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import make_user
from tests.commerce.moderation.factories import DAY, NOON, decide, report, reporter, undo
from tests.commerce.reviews.factories import review

pytestmark = pytest.mark.django_db
PAGE = "/admin/commerce_moderation/case/transparency/"
FILE = f"{PAGE}statements.csv"
MAY = ReportingPeriod(first=date(2026, 5, 1), last=date(2026, 5, 31))
QUERY = "since=2026-05-01&until=2026-05-31"


def report_for(content: Review | Question, name: str, code: str, *, days_before: int = 0) -> AbuseReport:
    made = report(content, reporter(name), at=NOON - days_before * DAY, message="I am Ann, call +49 30 1234567.")
    AbuseReport.objects.filter(pk=made.pk).update(reason=ReportReason.objects.get(code=code))
    return made


def file_rows(period: ReportingPeriod = MAY) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(write_statements(period)).decode())))


@pytest.fixture
def decided(lamp: Product, written: Review, asked: Question, admin: User, customer: User) -> None:
    """Remove a review, hide and keep a question, undo another removal, and ban an author."""
    report_for(written, "ann", "personal_data", days_before=1)
    report_for(written, "bob", "spam")
    removed = decide("accepted", written, admin, reason="Ann told us.", note="Ann again.")
    report_for(asked, "cem", "illegal")
    decide("hidden", asked, admin)
    decide("rejected", asked, admin, at=NOON + DAY)
    other = review(reporter("eve"), lamp, 5)
    report_for(other, "dan", "spam")
    undo(decide("accepted", other, admin), admin)
    notice = removed.notices.get(user=customer)
    appeal = file_appeal(author=customer, notice_id=notice.pk, message="My name is Some.", now=NOON + DAY)
    decide_appeal(appeal_id=appeal.pk, overturn=True, moderator=admin, now=NOON + 2 * DAY)
    for kind, days in (("warning", None), ("suspension", 7), ("ban", None)):
        impose_sanction(user_id=customer.pk, kind=kind, days=days, reason="Some", moderator=admin, now=NOON)


def test_statements_have_the_fields_of_the_dsa_database(decided: None):
    removed, hidden, suspension, ban = file_rows()

    assert tuple(removed) == COLUMNS
    assert removed["decision_visibility"] == "DECISION_VISIBILITY_CONTENT_REMOVED"
    assert removed["decision_ground"] == "DECISION_GROUND_INCOMPATIBLE_CONTENT"
    assert (removed["incompatible_content_ground"], removed["illegal_content_legal_ground"]) == ("Personal data", "")
    assert removed["incompatible_content_explanation"] == (
        "A moderator found the content to be against this rule: Personal data."
    )
    assert removed["category"] == "STATEMENT_CATEGORY_DATA_PROTECTION_AND_PRIVACY_VIOLATIONS"
    assert (removed["report_reason"], removed["notices_count"], removed["hours_to_decide"]) == (
        "personal_data", "2", "24.0",
    )  # fmt: skip
    assert removed["decision_facts"] == "Notices of users: personal_data 1, spam 1."
    assert (removed["source_type"], removed["automated_detection"], removed["automated_decision"]) == (
        "SOURCE_TYPE_OTHER_NOTIFICATION", "No", "AUTOMATED_DECISION_NOT_AUTOMATED",
    )  # fmt: skip
    assert (removed["content_type"], removed["content_language"]) == ('["CONTENT_TYPE_TEXT"]', "EN")
    assert removed["territorial_scope"].startswith('["AT", "BE", ')
    assert (removed["application_date"], removed["first_notice_date"]) == ("2026-05-04", "2026-05-03")
    assert (removed["appeal_outcome"], removed["appeal_decision_date"]) == ("overturned", "2026-05-06")
    assert removed["end_date_visibility_restriction"] == "2026-05-06"

    assert hidden["decision_visibility"] == "DECISION_VISIBILITY_CONTENT_DISABLED"
    assert (hidden["decision_ground"], hidden["source_type"]) == (
        "DECISION_GROUND_ILLEGAL_CONTENT",
        "SOURCE_ARTICLE_16",
    )
    assert (hidden["illegal_content_legal_ground"], hidden["incompatible_content_explanation"]) == (
        "Illegal content", "",
    )  # fmt: skip
    assert hidden["illegal_content_explanation"].endswith("to be illegal: Illegal content.")
    assert (hidden["end_date_visibility_restriction"], hidden["appeal_outcome"]) == ("2026-05-05", "")

    assert (suspension["decision_provision"], ban["decision_provision"]) == (
        "DECISION_PROVISION_PARTIAL_SUSPENSION", "DECISION_PROVISION_PARTIAL_TERMINATION",
    )  # fmt: skip
    assert (suspension["end_date_service_restriction"], ban["end_date_service_restriction"]) == ("2026-05-11", "")
    assert ban["incompatible_content_ground"] == statements.DEFAULT_GROUND
    assert (ban["content_type"], ban["source_type"]) == ('["CONTENT_TYPE_OTHER"]', "SOURCE_VOLUNTARY")


def test_a_rule_that_hides_is_an_automatic_decision(written: Review, admin: User):
    for number in range(5):
        report(written, reporter(f"r{number}", agreed=9), at=NOON)
    decide("accepted", written, admin, at=NOON + DAY)

    hidden, removed = file_rows()

    assert (hidden["automated_decision"], removed["automated_decision"]) == (
        "AUTOMATED_DECISION_FULLY", "AUTOMATED_DECISION_PARTIALLY",
    )  # fmt: skip
    assert hidden["decision_facts"].endswith("Enough notices of reliable users hid it automatically.")
    assert transparency_report(MAY).automated == 1


def test_nothing_in_the_report_names_a_person(decided: None, admin: User, customer: User):
    client = Client()
    client.force_login(make_user(Role.MODERATOR))
    text = b"".join(write_statements(MAY)).decode() + client.get(f"{PAGE}?{QUERY}").content.decode()

    people = [reporter for reporter in User.objects.all() if reporter.role == Role.CUSTOMER]
    assert len(people) > 4
    for person in [*people, admin]:
        assert person.email not in text
        assert person.name not in text
    for words in ("Ann", "call", "1234567", "Buy elsewhere", "My name"):
        assert words not in text


def test_figures_of_a_period(decided: None):
    figures = transparency_report(MAY)

    assert (figures.statements, figures.notices, figures.appeals_filed, figures.automated) == (4, 3, 1, 0)
    assert {each["action"]: (each["decisions"], each["notices_count"]) for each in figures.actions} == {
        "accepted": (1, 2), "hidden": (1, 1), "rejected": (1, 1), "appeal_overturned": (1, 2),
    }  # fmt: skip
    assert figures.sanctions == {"suspension": 1, "ban": 1}
    assert {each.reason.code: each.notices for each in figures.reasons if each.reason} == {
        "personal_data": 2, "illegal": 1,
    }  # fmt: skip
    assert figures.median_time == timedelta(days=1)
    assert not figures.is_partial


def test_a_period_has_both_of_its_ends_and_no_other_day(written: Review, admin: User):
    report(written, reporter("ann"))
    decide("accepted", written, admin)
    day = NOON.date()

    assert len(file_rows(ReportingPeriod(first=day, last=day))) == 1
    assert file_rows(ReportingPeriod(first=day - DAY, last=day - DAY)) == []
    assert file_rows(ReportingPeriod(first=day + DAY, last=day + DAY)) == []
    empty = transparency_report(ReportingPeriod(first=day + DAY, last=day + DAY))
    assert (empty.statements, empty.median_time, empty.reasons) == (0, None, [])


def test_a_file_is_bounded_and_no_cell_is_a_formula(
    lamp: Product, admin: User, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
):
    ReportReason.objects.filter(code="spam").update(code="-cmd")
    for number in range(4):
        content = review(reporter(f"author{number}"), lamp, 3)
        report_for(content, f"r{number}", "-cmd")
        decide("accepted", content, admin)

    assert {row["report_reason"] for row in file_rows()} == {"'-cmd"}
    with django_assert_num_queries(4):  # decisions, contents of two kinds, ends
        assert len(newest_statements(MAY, 3)) == 3
    monkeypatch.setattr(statements, "MAX_STATEMENTS", 3)
    assert len(file_rows()) == 3


def test_the_page_and_the_file_are_for_moderators(decided: None, owner: User, customer: User):
    client = Client()
    for path in (PAGE, FILE):
        assert client.get(path).status_code == 302
        for user in (owner, customer):
            client.force_login(user)
            assert client.get(path).status_code == 403
        client.logout()
    client.force_login(make_user(Role.MODERATOR))

    shown = client.get(f"{PAGE}?{QUERY}")
    sent = client.get(f"{FILE}?{QUERY}")

    assert 'href="/admin/commerce_moderation/case/transparency/statements.csv?since=2026-05-01&amp;until=' in (
        shown.content.decode()
    )
    assert shown.context["report"].statements == 4
    assert [statement.puid for statement in shown.context["statements"]]
    assert sent.headers["Content-Disposition"] == (
        'attachment; filename="statements-of-reasons-2026-05-01-2026-05-31.csv"'
    )
    assert b"".join(sent).decode().count("\n") == 5  # type: ignore[call-overload]
    assert client.post(PAGE).status_code == 405
    statistics = client.get("/admin/commerce_moderation/case/statistics/").content.decode()
    assert f'href="{PAGE}"' in statistics


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("since=2026-05-02&until=2026-05-01", "not before the first one"),
        ("since=2026-01-01&until=2027-01-02", "at most 366 days"),
        ("since=0001-01-01&until=0001-01-02", "between 2000 and 2099"),
        ("since=9999-12-30&until=9999-12-31", "between 2000 and 2099"),
        ("since=2026-02-30&until=2026-03-01", "valid date"),
        ("since=%00&until=x", "valid date"),
        ("since=2026-05-02", "required"),
    ],
)
def test_an_invalid_period_is_an_error_on_the_page(admin: User, query: str, message: str):
    client = Client()
    client.force_login(admin)
    for path in (PAGE, FILE):
        answer = client.get(f"{path}?{query}")
        assert (answer.status_code, message in answer.content.decode()) == (422, True)
