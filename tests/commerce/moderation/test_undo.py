"""Undoing: for ten minutes, everything as it was."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from commerce.catalog.models import Product
from commerce.moderation.appeals import file_appeal
from commerce.moderation.models import AbuseReport, Case, Decision, Notice, Reporter
from commerce.moderation.services import delete_report
from commerce.reviews.models import Question, Review
from commerce.reviews.services import delete_review
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.audit.models import AuditEntry
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, case_of, decide, report, reporter, rows, undo

pytestmark = pytest.mark.django_db

EVERYTHING = (AbuseReport, Case, Review, Question, Product, Notice, Reporter)
ACTIONS: dict[str, Callable[[Review, User], Decision]] = {
    "accept": lambda written, admin: decide("accept_report", written, admin),
    "reject": lambda written, admin: decide("reject_report", written, admin),
    "hide": lambda written, admin: decide("hide_content", written, admin),
    "warn": lambda written, admin: decide("warn_author", written, admin),
    "delete a report": lambda written, admin: delete_report(
        report_id=AbuseReport.objects.latest("pk").pk, moderator=admin, now=NOON
    ),
}


def state() -> list[list[dict[str, object]]]:
    return rows(*EVERYTHING, without=("updated_at",))


def status_of(decision: Decision, admin: User, **options: object) -> int:
    before = state()
    with pytest.raises(ApiError) as refusal:
        undo(decision, admin, **options)  # type: ignore[arg-type]
    assert state() == before
    return refusal.value.problem.status


@pytest.mark.parametrize(
    ("action", "hidden"), [(action, hidden) for action in ACTIONS for hidden in (False, True) if action != "hide"]
    + [("hide", False)],
)  # fmt: skip
def test_undo_puts_everything_back(written: Review, admin: User, action: str, hidden: bool):
    for number, name in enumerate(["ann", "bob", "cleo"]):
        report(written, reporter(name, age=number * DAY, agreed=number + 1), at=NOON + number * MINUTE)
    if hidden:
        decide("hide_content", written, admin)
    before, reports = state(), rows(AbuseReport)

    decision = ACTIONS[action](written, admin)
    assert state() != before
    undone = undo(decision, admin, at=NOON + 9 * MINUTE)

    assert state() == before
    assert rows(AbuseReport) == reports  # to the microsecond
    assert (undone.undone_by, undone.undone_at) == (admin, NOON + 9 * MINUTE)
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.details["decision_id"]) == ("moderation.undone", decision.pk)


def test_a_restoration_is_undone_too(written: Review, admin: User):
    report(written, reporter("ann"))
    decide("accept_report", written, admin)
    before = state()
    undo(decide("restore_content", written, admin, at=NOON + DAY), admin, at=NOON + DAY)

    assert state() == before
    assert case_of(written).state == "accepted"


def test_after_ten_minutes_it_is_too_late(written: Review, admin: User):
    report(written, reporter("ann"))
    decision = decide("accept_report", written, admin)

    assert status_of(decision, admin, at=NOON + 10 * MINUTE) == 409
    undo(decision, admin, at=NOON + 9 * MINUTE)
    assert status_of(decision, admin) == 409


def test_decisions_are_undone_from_the_last_one_back(written: Review, admin: User):
    report(written, reporter("ann", agreed=1))
    before = state()
    warned = decide("warn_author", written, admin)
    accepted = decide("accept_report", written, admin)

    assert status_of(warned, admin) == 409
    undo(accepted, admin)
    undo(warned, admin)
    assert state() == before


def test_what_was_reported_since_waits_on_beside_what_comes_back(written: Review, admin: User):
    ann, bob = reporter("ann"), reporter("bob")
    report(written, ann, message="First.")
    decision = decide("reject_report", written, admin)
    report(written, ann, at=NOON + MINUTE, message="Again.")
    report(written, bob, at=NOON + MINUTE, message="Third.")
    undo(decision, admin, at=NOON + 2 * MINUTE)

    assert set(AbuseReport.objects.values_list("message", flat=True)) == {"Again.", "Third."}
    case = case_of(written)
    written.refresh_from_db()
    assert (case.state, case.reports_count, written.abusive_reports_count) == ("open", 2, 2)


def test_what_the_author_took_back_since_stays_away(written: Review, customer: User, admin: User):
    report(written, reporter("ann"))
    decision = decide("warn_author", written, admin)
    delete_review(review_id=written.pk, actor=customer, now=NOON + MINUTE)

    assert status_of(decision, admin, at=NOON + MINUTE) == 409


def test_of_an_unknown_decision_nothing_is_undone(admin: User):
    assert status_of(Decision(pk=2**62), admin) == 404


def test_a_restoring_is_not_undone_over_new_reports_which_nobody_could_decide(written: Review, admin: User):
    report(written, reporter("ann"))
    decide("accept_report", written, admin)
    restored = decide("restore_content", written, admin, at=NOON + MINUTE)
    report(written, reporter("bob"), at=NOON + 2 * MINUTE)

    assert status_of(restored, admin, at=NOON + 3 * MINUTE) == 409
    decide("accept_report", written, admin, at=NOON + 4 * MINUTE)
    assert case_of(written).state == "accepted"


def test_what_its_author_has_appealed_against_is_not_undone_by_who_asked_a_moment_before(
    written: Review, customer: User, admin: User
):
    report(written, reporter("ann"))
    decision = decide("accept_report", written, admin)
    notice = decision.notices.get(user=customer)
    file_appeal(author=customer, notice_id=notice.pk, message="Mine.", now=decision.undo_until)

    assert status_of(decision, admin, at=decision.undo_until - timedelta(microseconds=1)) == 409
