"""Accepting, rejecting, hiding, warning, restoring, and what each leaves behind."""

from datetime import timedelta

import pytest
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.moderation.models import AbuseReport, Case, Decision, Reporter
from commerce.moderation.services import delete_report
from commerce.reviews.models import Question, Review
from commerce.reviews.services import delete_review
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.audit.models import AuditEntry
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, case_of, decide, report, reporter, undo
from tests.commerce.reviews.factories import review

pytestmark = pytest.mark.django_db


def rating_of(product: Product) -> tuple[int, int]:
    product.refresh_from_db()
    return product.rating_sum, product.rating_count


def refused(action: str, content: Review | Question, moderator: User, **options: object) -> int:
    before = Decision.objects.count(), AuditEntry.objects.count()
    with pytest.raises(ApiError) as refusal:
        decide(action, content, moderator, **options)  # type: ignore[arg-type]
    assert (Decision.objects.count(), AuditEntry.objects.count()) == before
    return refusal.value.problem.status


def figures(user: User) -> tuple[int, int]:
    found = Reporter.objects.filter(user=user).first()
    return (found.agreed, found.disagreed) if found else (0, 0)


def test_accepting_removes_content_from_lists_and_ratings(lamp: Product, written: Review, admin: User):
    ann, bob = reporter("ann"), reporter("bob")
    reports = [report(written, ann), report(written, bob)]
    assert rating_of(lamp) == (1, 1)

    decision = decide("accepted", written, admin, note="Seen before.", reason="It is advertising.")

    assert not Review.objects.visible().exists()
    assert rating_of(lamp) == (0, 0)
    assert set(AbuseReport.objects.values_list("status", flat=True)) == {"accepted"}
    assert {kept["id"] for kept in decision.reports} == {one.pk for one in reports}
    assert (decision.content["comment"], decision.content["rating"]) == ("Buy elsewhere.", 1)
    assert (decision.note, decision.reason, decision.moderator) == ("Seen before.", "It is advertising.", admin)
    case = case_of(written)
    assert (case.state, case.is_waiting, case.reports_count, case.weight) == ("accepted", False, 0, 0)
    assert figures(ann) == figures(bob) == (1, 0)


def test_rejecting_keeps_content_and_deletes_its_reports(lamp: Product, written: Review, admin: User):
    ann = reporter("ann")
    report(written, ann, message="I do not like it.")

    decision = decide("rejected", written, admin)

    written.refresh_from_db()
    assert (written.is_visible, written.abusive_reports_count) == (True, 0)
    assert rating_of(lamp) == (1, 1)
    assert not AbuseReport.objects.exists()
    assert [kept["message"] for kept in decision.reports] == ["I do not like it."]
    assert case_of(written).state == "rejected"
    assert figures(ann) == (0, 1)


def test_the_audit_log_has_each_decision_with_the_text_and_the_reports_before_it(written: Review, admin: User):
    report(written, reporter("ann"), message="Rude.")
    decide("rejected", written, admin, note="It is not.")

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.at) == ("moderation.rejected", admin, NOON)
    assert (entry.target_type, entry.target_id) == ("Review", written.pk)
    assert entry.details["content"]["comment"] == "Buy elsewhere."
    assert (entry.details["reports_count"], entry.details["note"]) == (1, "It is not.")
    assert [kept["message"] for kept in entry.details["reports"]] == ["Rude."]


def test_a_second_accept_is_404(written: Review, admin: User, colleague: User):
    report(written, reporter("ann"))
    decide("accepted", written, admin)

    for moderator in (admin, colleague):
        for action in ("accepted", "rejected", "hidden", "warned"):
            assert refused(action, written, moderator) == 404


def test_another_decision_is_refused_until_a_rejection_can_no_longer_be_undone(
    written: Review, admin: User, colleague: User
):
    report(written, reporter("ann"))
    decide("rejected", written, admin)

    for action in ("accepted", "rejected"):
        assert refused(action, written, colleague, at=NOON + 9 * MINUTE) == 409
    decide("accepted", written, colleague, at=NOON + 10 * MINUTE)
    assert not Review.objects.visible().exists()


def test_a_report_after_a_rejection_opens_the_case_again(written: Review, admin: User, colleague: User):
    report(written, reporter("ann"))
    decide("rejected", written, admin)
    report(written, reporter("bob"), at=NOON + MINUTE)

    assert case_of(written).state == "open"
    assert decide("accepted", written, colleague, at=NOON + MINUTE).reports_count == 1


def test_a_report_after_a_rejection_can_be_rejected_immediately(written: Review, admin: User):
    report(written, reporter("ann"))
    decide("rejected", written, admin)
    report(written, reporter("bob"), at=NOON + MINUTE)

    assert decide("rejected", written, admin, at=NOON + MINUTE).reports_count == 1
    assert refused("rejected", written, admin, at=NOON + 2 * MINUTE) == 409


def test_without_undo_another_decision_is_refused_for_a_minute(
    written: Review, admin: User, colleague: User, settings: Settings
):
    settings.MODERATION_UNDO_WINDOW = timedelta(0)
    report(written, reporter("ann"))
    decide("rejected", written, admin)

    for action in ("accepted", "rejected"):
        assert refused(action, written, colleague, at=NOON + timedelta(seconds=59)) == 409
    decide("accepted", written, colleague, at=NOON + MINUTE)
    assert not Review.objects.visible().exists()


def test_c4_content_without_reports_can_be_decided_and_missing_content_is_404(
    asked: Question, written: Review, admin: User
):
    assert decide("accepted", asked, admin).reports_count == 0
    assert not Question.objects.visible().exists()
    written.pk = 2**62
    for action in ("accepted", "rejected", "restored"):
        assert refused(action, written, admin) == 404


def test_hidden_content_leaves_the_lists_and_its_case_waits(lamp: Product, written: Review, admin: User):
    report(written, reporter("ann"))
    decide("hidden", written, admin)

    assert not Review.objects.visible().exists()
    assert rating_of(lamp) == (0, 0)
    case = case_of(written)
    assert (case.state, case.hiding, case.is_waiting, case.reports_count) == ("open", "moderator", True, 1)
    assert refused("hidden", written, admin, at=NOON + DAY) == 409
    with pytest.raises(ApiError) as refusal:
        report(written, reporter("bob"))
    assert refusal.value.problem.status == 404


def test_showing_or_rejecting_shows_hidden_content_again(lamp: Product, written: Review, admin: User):
    report(written, reporter("ann"))
    decide("hidden", written, admin)
    decide("shown", written, admin)
    assert (rating_of(lamp), case_of(written).hiding, case_of(written).state) == ((1, 1), "", "open")
    assert refused("shown", written, admin, at=NOON + DAY) == 409

    decide("hidden", written, admin, at=NOON + DAY)
    decide("rejected", written, admin, at=NOON + DAY)
    assert (rating_of(lamp), case_of(written).hiding, case_of(written).state) == ((1, 1), "", "rejected")


def test_accepting_or_deleting_hidden_content_changes_the_rating_once(lamp: Product, written: Review, admin: User):
    other = review(reporter("author"), lamp, 5)
    for content in (written, other):
        report(content, reporter(f"ann{content.pk}"))
        decide("hidden", content, admin)
    assert rating_of(lamp) == (0, 0)
    decide("accepted", written, admin)
    delete_review(review_id=other.pk, actor=other.user, now=NOON)

    assert rating_of(lamp) == (0, 0)
    assert case_of(other).hiding == case_of(written).hiding == ""


def test_only_content_with_open_reports_can_be_hidden(written: Review, admin: User):
    assert refused("hidden", written, admin) == 409


def test_a_warning_changes_neither_content_nor_reports(written: Review, admin: User, colleague: User):
    report(written, reporter("ann"))
    before = case_of(written).updated_at
    decide("warned", written, admin, at=NOON + MINUTE)

    case = case_of(written)
    assert (case.state, case.is_waiting, case.reports_count) == ("open", True, 1)
    assert case.updated_at > before
    assert Review.objects.visible().get() == written
    assert refused("warned", written, colleague, at=NOON + MINUTE) == 409
    decide("accepted", written, admin, at=NOON + MINUTE)


def test_accepted_content_can_be_restored_months_later(lamp: Product, written: Review, admin: User):
    ann = reporter("ann")
    report(written, ann)
    decide("accepted", written, admin)
    decide("restored", written, admin, at=NOON + 90 * DAY)

    written.refresh_from_db()
    assert (written.is_visible, written.abusive_reports_count, rating_of(lamp)) == (True, 0, (1, 1))
    assert not AbuseReport.objects.exists()
    assert figures(ann) == (0, 1)
    assert refused("restored", written, admin, at=NOON + 99 * DAY) == 409


def test_content_that_its_author_deleted_cannot_be_restored(written: Review, customer: User, admin: User):
    report(written, reporter("ann"))
    delete_review(review_id=written.pk, actor=customer, now=NOON)

    assert refused("restored", written, admin) == 409


def test_a_review_cannot_be_restored_beside_a_newer_one_of_its_author(
    lamp: Product, written: Review, customer: User, admin: User
):
    decision = decide("accepted", written, admin)
    review(customer, lamp, 4)

    with pytest.raises(ApiError, match="another review") as refusal:
        undo(decision, admin)
    assert refusal.value.problem.status == 409
    assert refused("restored", written, admin, at=NOON + DAY) == 409
    assert rating_of(lamp) == (4, 1)


def test_content_that_its_author_deletes_leaves_the_queue(written: Review, customer: User):
    made = report(written, reporter("ann"))
    delete_review(review_id=written.pk, actor=customer, now=NOON + MINUTE)

    case = case_of(written)
    made.refresh_from_db()
    assert (case.state, case.is_waiting, case.reports_count, made.status) == ("closed", False, 0, "withdrawn")


def test_deleting_the_last_report_closes_the_case(written: Review, admin: User):
    first, second = report(written, reporter("ann")), report(written, reporter("bob"), at=NOON + MINUTE)
    delete_report(report_id=first.pk, moderator=admin, now=NOON)

    written.refresh_from_db()
    case = case_of(written)
    assert (case.reports_count, case.weight, case.oldest_at) == (1, 500, NOON + MINUTE)
    assert (written.abusive_reports_count, AbuseReport.objects.get()) == (1, second)
    assert AuditEntry.objects.get().details["reports"][0]["message"] == "Spam."

    decide("hidden", written, admin)
    delete_report(report_id=second.pk, moderator=admin, now=NOON)
    written.refresh_from_db()
    assert (written.is_visible, case_of(written).state, written.abusive_reports_count) == (True, "closed", 0)
    with pytest.raises(ApiError) as refusal:
        delete_report(report_id=second.pk, moderator=admin, now=NOON)
    assert refusal.value.problem.status == 404


def test_questions_are_decided_like_reviews(asked: Question, admin: User):
    report(asked, reporter("ann"))
    decision = decide("accepted", asked, admin)

    assert not Question.objects.visible().exists()
    assert (decision.content["question"], decision.content["answer"]) == ("Call me?", "")


def test_all_reports_of_one_content_share_one_case(written: Review, lamp: Product):
    for number in range(3):
        report(written, reporter(f"r{number}", agreed=number), at=NOON + number * MINUTE)

    case = Case.objects.get()
    assert (case.author, case.shop, case.language) == (written.user, lamp.shop, "en")
    assert (case.reports_count, case.weight, case.trusted_count) == (3, 500 + 600 + 667, 3)
    assert (case.oldest_at, case.newest_at) == (NOON, NOON + 2 * MINUTE)
