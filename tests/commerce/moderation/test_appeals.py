"""Appeals of authors against removals."""

from datetime import datetime

import pytest

from commerce.moderation.appeals import decide_appeal, file_appeal
from commerce.moderation.models import AbuseReport, Appeal, Case, Decision, Notice, Reporter
from commerce.moderation.queue.bulk import decide_case, preview_decision
from commerce.moderation.queue.listing import QueueFilters, filter_queue
from commerce.moderation.services import delete_report
from commerce.reviews.models import Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError
from shared.audit.models import AuditEntry
from tests.commerce.conftest import make_user
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, case_of, decide, report, reporter, rows, undo

pytestmark = pytest.mark.django_db
TOLD = NOON + 10 * MINUTE


@pytest.fixture
def notice(written: Review, admin: User) -> Notice:
    """Return the notice of the removal of a review that Ann had reported."""
    report(written, reporter("ann"))
    decide("accepted", written, admin)
    return Notice.objects.get(kind="content_removed")


def appeal(notice: Notice, author: User, at: datetime = TOLD) -> Appeal:
    return file_appeal(author=author, notice_id=notice.pk, message="It is my own lamp.", now=at)


def refused(notice: Notice, author: User, at: datetime = TOLD) -> int:
    before = rows(Appeal, Case, AuditEntry)
    with pytest.raises(ApiError) as refusal:
        appeal(notice, author, at)
    assert rows(Appeal, Case, AuditEntry) == before
    return refusal.value.problem.status


def decide_on(made: Appeal, moderator: User, *, overturn: bool) -> Decision:
    return decide_appeal(appeal_id=made.pk, overturn=overturn, moderator=moderator, now=TOLD + DAY)


def test_an_appeal_returns_the_case_to_the_queue(notice: Notice, written: Review, customer: User):
    made = appeal(notice, customer)

    case = filter_queue(QueueFilters(state="appealed"), now=TOLD).get()
    assert (case.model_id, case.state, case.oldest_at, case.newest_at) == (written.pk, "appealed", TOLD, TOLD)
    assert (made.status, made.decision, made.result) == ("open", notice.decision, None)
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.actor, entry.details["message"]) == (
        "moderation.appealed",
        customer,
        "It is my own lamp.",
    )


@pytest.mark.parametrize(("action", "told"), [("accepted", 1), ("rejected", 1), ("escalated", 0)])
def test_a_preview_counts_authors_whose_appeal_is_decided(notice: Notice, customer: User, action: str, told: int):
    case_id = appeal(notice, customer).decision.case_id

    assert preview_decision(case_ids=[case_id], action=action).notified_authors == told


def test_an_overturned_appeal_restores_the_content(notice: Notice, written: Review, customer: User, colleague: User):
    made = appeal(notice, customer)
    decision = decide_on(made, colleague, overturn=True)

    made.refresh_from_db()
    written.refresh_from_db()
    assert (made.status, made.result, made.decided_at) == ("overturned", decision, TOLD + DAY)
    assert (written.is_visible, written.abusive_reports_count, case_of(written).state) == (True, 0, "rejected")
    assert not AbuseReport.objects.exists()
    ann = Reporter.objects.get()
    assert (ann.agreed, ann.disagreed) == (0, 1)
    assert decision.notices.get().kind == "content_restored"


def test_deleting_a_report_of_removed_content_keeps_the_appeal(
    notice: Notice, written: Review, customer: User, admin: User
):
    deleted = delete_report(report_id=AbuseReport.objects.get().pk, moderator=admin, now=TOLD)
    made = appeal(notice, customer, TOLD + MINUTE)
    assert case_of(written).state == "appealed"

    undo(deleted, admin, at=TOLD + 2 * MINUTE)
    assert (case_of(written).state, case_of(written).oldest_at) == ("appealed", made.created_at)


def test_a_kept_appeal_leaves_the_content_removed(notice: Notice, written: Review, customer: User, colleague: User):
    made = appeal(notice, customer)
    decision = decide_on(made, colleague, overturn=False)

    made.refresh_from_db()
    written.refresh_from_db()
    assert (made.status, made.result, written.is_visible) == ("kept", decision, False)
    assert (case_of(written).state, case_of(written).is_waiting) == ("accepted", False)
    assert Reporter.objects.get().agreed == 1
    told = decision.notices.get()
    assert (told.kind, told.user, told.appeal_until) == ("appeal_kept", customer, None)


@pytest.mark.parametrize("overturn", [True, False])
def test_an_appeal_is_decided_once_and_the_decision_can_be_undone(
    notice: Notice, customer: User, admin: User, colleague: User, overturn: bool
):
    made = appeal(notice, customer)
    everything = (Appeal, AbuseReport, Review, Notice, Reporter, Case)
    before = rows(*everything, without=("updated_at",))
    decision = decide_on(made, admin, overturn=overturn)
    for again in (True, False):
        with pytest.raises(ApiError, match="decided") as refusal:
            decide_on(made, colleague, overturn=again)
        assert refusal.value.problem.status == 409

    undo(decision, admin, at=TOLD + DAY + MINUTE)
    assert rows(*everything, without=("updated_at",)) == before
    decide_on(made, colleague, overturn=not overturn)


def test_accepting_an_appealed_case_keeps_it_down_and_rejecting_restores_it(
    notice: Notice, written: Review, customer: User, admin: User
):
    made = appeal(notice, customer)
    case = case_of(written)
    for action in ("hidden", "warned", "shown"):
        with pytest.raises(ApiError, match="appeal"):
            decide_case(case_id=case.pk, action=action, moderator=admin, now=TOLD)

    decision = decide_case(case_id=case.pk, action="rejected", moderator=admin, now=TOLD)
    assert decision.action == "appeal_overturned"
    undo(decision, admin, at=TOLD)
    assert decide_case(case_id=case.pk, action="accepted", moderator=admin, now=TOLD).action == "appeal_kept"
    made.refresh_from_db()
    assert made.status == "kept"


def test_a_second_appeal_is_refused(notice: Notice, customer: User, admin: User):
    made = appeal(notice, customer)
    assert refused(notice, customer) == 409
    decide_on(made, admin, overturn=False)
    assert refused(notice, customer, TOLD + 2 * DAY) == 409


def test_a_late_appeal_is_refused(notice: Notice, customer: User):
    assert refused(notice, customer, TOLD - MINUTE) == 404
    assert refused(notice, customer, TOLD + 14 * DAY) == 409
    appeal(notice, customer, TOLD + 14 * DAY - MINUTE)


def test_c1_an_appeal_by_another_user_is_404(notice: Notice):
    assert refused(notice, make_user(Role.CUSTOMER, "other")) == 404
    assert refused(Notice(pk=2**62), make_user(Role.SUPER_ADMIN, "else")) == 404


def test_only_removals_can_be_appealed(written: Review, customer: User, admin: User):
    decide("warned", written, admin)

    assert refused(Notice.objects.get(), customer) == 409


def test_an_appeal_against_restored_content_is_refused(notice: Notice, written: Review, customer: User, admin: User):
    decide("restored", written, admin, at=TOLD)

    assert refused(notice, customer, TOLD + MINUTE) == 409


def test_appealed_content_is_restored_only_by_deciding_the_appeal(
    notice: Notice, written: Review, customer: User, admin: User
):
    appeal(notice, customer)

    with pytest.raises(ApiError) as refusal:
        decide("restored", written, admin, at=TOLD)
    assert refusal.value.problem.status == 409
