"""Random sequences of reviews, reports, appeals, decisions and undos, with all figures checked after each step."""

from collections import Counter
from typing import Any

from django.db.models import Max, Min, Sum
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from commerce.moderation.appeals import file_appeal
from commerce.moderation.decisions import REPORTER_VERDICTS
from commerce.moderation.models import AbuseReport, Appeal, Case, Decision, Notice, Reporter
from commerce.moderation.queue.bulk import decide_case
from commerce.moderation.services import delete_report
from commerce.moderation.undo import undo_decision
from commerce.reviews.models import Review
from commerce.reviews.services import delete_review
from shared.accounts.roles import Role
from shared.api.errors import ApiError
from shared.audit.models import AuditEntry
from tests.commerce.conftest import make_user
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, decide, report, reporter
from tests.commerce.orders.factories import make_goods, other_shop
from tests.commerce.reviews.factories import review
from tests.commerce.state_machines import Walk, walk

PICK = st.integers(0, 1000)
DECISIONS = ["accepted", "rejected", "hidden", "shown", "warned", "restored"]


class ModerationWalk(Walk):
    """A state machine without a model: it compares the stored figures with counted ones."""

    @initialize()
    def create_product_and_users(self) -> None:
        self.now = NOON
        self.lamp = make_goods(other_shop("one"))
        self.authors = [reporter(f"author{number}") for number in range(3)]
        self.reporters = [reporter(f"r{number}", age=(20 if number < 6 else -1) * DAY) for number in range(12)]
        self.moderators = [make_user(Role.SUPER_ADMIN, name) for name in ("one", "two")]
        for author in self.authors:
            review(author, self.lamp, 1 + author.pk % 5)

    @rule(minutes=st.sampled_from([0, 1, 4, 11, 60 * 24]))
    def wait(self, minutes: int) -> None:
        self.now += minutes * MINUTE

    @rule(pick=PICK, who=PICK)
    def write(self, pick: int, who: int) -> None:
        self.tried(lambda: review(self.authors[who % 3], self.lamp, 1 + pick % 5))

    @rule(pick=PICK)
    def take_back(self, pick: int) -> None:
        written = self.one(Review.objects.all(), pick)
        self.tried(lambda: delete_review(review_id=written.pk, actor=written.user, now=self.now))

    @rule(pick=PICK, crowd=st.sets(st.integers(0, 11), min_size=1))
    def accuse(self, pick: int, crowd: set[int]) -> None:
        written = self.one(Review.objects.all(), pick)
        for number in sorted(crowd):
            self.tried(lambda one=self.reporters[number]: report(written, one, at=self.now))

    @rule(pick=PICK, action=st.sampled_from(DECISIONS), who=PICK)
    def moderate(self, pick: int, action: str, who: int) -> None:
        written = self.one(Review.objects.all(), pick)
        self.tried(lambda: decide(action, written, self.moderators[who % 2], at=self.now))

    @precondition(lambda self: Case.objects.waiting().exists())
    @rule(pick=PICK, action=st.sampled_from(["accepted", "rejected"]))
    def clear(self, pick: int, action: str) -> None:
        case = self.one(Case.objects.waiting(), pick)
        self.tried(lambda: decide_case(case_id=case.pk, action=action, moderator=self.moderators[0], now=self.now))

    @precondition(lambda self: Decision.objects.exists())
    @rule(back=st.integers(1, 3))
    def undo(self, back: int) -> None:
        made = self.one(Decision.objects.all(), -back)
        self.tried(lambda: undo_decision(decision_id=made.pk, moderator=self.moderators[1], now=self.now))

    @precondition(lambda self: AbuseReport.objects.exists())
    @rule(pick=PICK)
    def delete_a_report(self, pick: int) -> None:
        made = self.one(AbuseReport.objects.all(), pick)
        self.tried(lambda: delete_report(report_id=made.pk, moderator=self.moderators[0], now=self.now))

    @precondition(lambda self: Notice.objects.filter(kind="content_removed").exists())
    @rule(pick=PICK)
    def appeal(self, pick: int) -> None:
        notice = self.one(Notice.objects.filter(kind="content_removed"), pick)
        at = max(self.now, notice.due_at)
        self.now = at
        self.tried(lambda: file_appeal(author=notice.user, notice_id=notice.pk, message="No.", now=at))

    @invariant()
    def rating_equals_that_of_visible_reviews(self) -> None:
        if not hasattr(self, "lamp"):
            return
        self.lamp.refresh_from_db()
        visible = Review.objects.visible()
        total = visible.aggregate(sum=Sum("rating"))["sum"] or 0
        assert (self.lamp.rating_sum, self.lamp.rating_count) == (total, visible.count())

    @invariant()
    def cases_equal_their_reports(self) -> None:
        for case in Case.objects.select_related("last_decision"):
            reports = AbuseReport.objects.of(case.model_type, case.model_id)
            still = reports.filter(status="open")
            content = Review.objects.get(pk=case.model_id)
            figures = still.aggregate(weight=Sum("weight"), newest=Max("created_at"), oldest=Min("created_at"))
            assert (case.reports_count, case.weight) == (still.count(), figures["weight"] or 0)
            assert case.trusted_count == still.filter(standing="trusted").count()
            assert content.abusive_reports_count == reports.count()
            assert (case.state == "open") == still.exists()
            assert (case.hiding != "") == (content.hidden_at is not None and content.deleted_at is None)
            if case.state == "open":
                assert (case.newest_at, case.oldest_at) == (figures["newest"], figures["oldest"])
                assert content.deleted_at is None
            if case.state in ("accepted", "appealed"):
                assert content.deleted_at is not None
            assert case.appeals.filter(status="open").exists() == (case.state == "appealed")
            assert case.last_decision is None or case.last_decision.undone_at is None

    @invariant()
    def reporters_equal_the_standing_decisions(self) -> None:
        agreed: Counter[int] = Counter()
        disagreed: Counter[int] = Counter()
        for made in Decision.objects.filter(undone_at=None, action__in=list(REPORTER_VERDICTS)):
            yes, no = REPORTER_VERDICTS[made.action]
            for kept in made.reports:
                agreed[kept["user_id"]] += yes
                disagreed[kept["user_id"]] += no
        for judged in Reporter.objects.all():
            assert (judged.agreed, judged.disagreed) == (agreed[judged.user_id], disagreed[judged.user_id])

    @invariant()
    def decisions_are_logged_and_undone_ones_have_no_notices(self) -> None:
        undone = Decision.objects.exclude(undone_at=None)
        expected = Decision.objects.count() + undone.count() + Appeal.objects.count()
        assert AuditEntry.objects.count() == expected
        assert not Notice.objects.filter(decision__in=undone).exists()

    @staticmethod
    def tried(call: Any) -> None:
        """Run a call that succeeds or is refused with 404 or 409."""
        status = 0
        try:
            call()
        except ApiError as error:
            status = error.problem.status
        assert status in (0, 404, 409)

    @staticmethod
    def one(rows: Any, pick: int) -> Any:
        known = list(rows.order_by("pk"))
        return known[pick % len(known)]


def test_all_figures_are_right_after_any_sequence_of_actions(db: None):
    walk(ModerationWalk, walks=10)
