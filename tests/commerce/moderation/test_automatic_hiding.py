"""Automatic hiding by trusted reporters, and brigades, which hide nothing."""

import pytest
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.moderation.models import AbuseReport, Decision
from commerce.moderation.queue.listing import case_reports
from commerce.reviews.models import Review
from commerce.reviews.services import delete_review
from shared.accounts.models import User
from shared.audit.models import AuditEntry
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, case_of, decide, report, reporter, rows, undo

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def three_are_enough(settings: Settings) -> None:
    settings.MODERATION_AUTO_HIDE_AFTER = 3


def is_visible(review: Review) -> bool:
    review.refresh_from_db()
    return review.is_visible


def test_three_trusted_reporters_hide_a_review_until_a_moderator_decides(lamp: Product, written: Review):
    for number in range(3):
        assert is_visible(written)
        report(written, reporter(f"r{number}"))

    assert not is_visible(written)
    lamp.refresh_from_db()
    assert lamp.rating_count == 0
    case, decision = case_of(written), Decision.objects.get()
    assert (case.state, case.hiding, case.is_waiting, case.trusted_count) == ("open", "automatic", True, 3)
    assert (decision.action, decision.moderator, decision.reports_count) == ("hidden", None, 3)
    assert {kept["standing"] for kept in decision.reports} == {"trusted"}
    assert (AuditEntry.objects.get().action, AuditEntry.objects.get().actor) == ("moderation.hidden", None)


def test_moderators_see_the_weight_and_standing_of_each_report(
    written: Review, owner: User, staff: User, customer: User
):
    report(written, reporter("good", agreed=6))
    report(written, reporter("bad", disagreed=6))
    report(written, reporter("new", age=DAY))
    for involved in (owner, staff, customer):
        report(written, involved)

    lines = [(line.report.standing, line.report.weight, line.counts) for line in case_reports(case_of(written))]
    assert lines[::-1] == [
        ("trusted", 800, True),
        ("unreliable", 200, False),
        ("new_account", 500, False),
        ("involved", 500, False),
        ("involved", 500, False),
        ("involved", 500, False),
    ]
    assert is_visible(written)
    assert case_of(written).trusted_count == 1


def test_the_current_record_of_a_reporter_is_shown(written: Review, admin: User):
    ann = reporter("ann")
    report(written, ann)
    decide("accepted", written, admin)

    (line,) = case_reports(case_of(written))
    assert (line.report.weight, line.reporter.weight, line.reporter.agreed, line.reporter.disagreed) == (500, 600, 1, 0)


def test_a_brigade_of_new_accounts_is_flagged_and_hides_nothing(written: Review):
    for number in range(20):
        report(written, reporter(f"new{number}", age=MINUTE), at=NOON + number * MINUTE)

    assert is_visible(written)
    case = case_of(written)
    assert (case.is_brigaded, case.trusted_count, case.reports_count) == (True, 0, 20)


def test_reports_of_new_accounts_over_days_are_no_brigade(written: Review):
    for number in range(6):
        report(written, reporter(f"new{number}", age=-number * DAY), at=NOON + number * DAY)

    assert (case_of(written).is_brigaded, is_visible(written)) == (False, True)


def test_trusted_reporters_hide_content_despite_a_brigade(written: Review):
    for number in range(5):
        report(written, reporter(f"new{number}", age=MINUTE))
    for number in range(3):
        report(written, reporter(f"old{number}"))

    assert (case_of(written).is_brigaded, is_visible(written)) == (True, False)


def test_nothing_is_hidden_while_automatic_hiding_is_off(written: Review, settings: Settings):
    settings.MODERATION_AUTO_HIDE_AFTER = 0
    for number in range(6):
        report(written, reporter(f"r{number}"))

    assert is_visible(written)


@pytest.mark.parametrize("action", ["shown", "rejected"])
def test_cleared_content_is_never_hidden_automatically_again(written: Review, admin: User, action: str):
    for number in range(3):
        report(written, reporter(f"r{number}"))
    decide(action, written, admin)
    assert is_visible(written)
    for number in range(3, 9):
        report(written, reporter(f"r{number}"), at=NOON + MINUTE)

    assert is_visible(written)
    assert case_of(written).is_cleared


def test_a_moderator_confirms_automatic_hiding_and_undoes_the_confirmation(written: Review, admin: User):
    for number in range(3):
        report(written, reporter(f"r{number}"))
    before = rows(Review)
    decision = decide("hidden", written, admin)

    assert (case_of(written).hiding, rows(Review)) == ("moderator", before)
    undo(decision, admin)
    assert (case_of(written).hiding, is_visible(written)) == ("automatic", False)


def test_an_author_can_delete_hidden_content(written: Review, customer: User):
    for number in range(3):
        report(written, reporter(f"r{number}"))
    delete_review(review_id=written.pk, actor=customer, now=NOON)

    assert (case_of(written).state, case_of(written).hiding) == ("closed", "")
    assert set(AbuseReport.objects.values_list("status", flat=True)) == {"withdrawn"}
