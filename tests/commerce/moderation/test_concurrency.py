"""Concurrent decisions, reports and senders: one decision succeeds, no report is lost, nothing deadlocks."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.core import mail
from django.db import connection
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.moderation.models import AbuseReport, Case, Decision, Notice, Reporter, SecondLook
from commerce.moderation.notices.delivery import send_notices
from commerce.moderation.queue.second_looks import decide_second_look
from commerce.reviews.models import Review
from commerce.reviews.services import delete_review
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError
from shared.audit.models import AuditEntry
from tests.commerce.conftest import make_user
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, case_of, decide, report, reporter, undo
from tests.commerce.reviews.factories import review

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def moderators() -> list[User]:
    return [make_user(Role.SUPER_ADMIN, f"moderator{number}") for number in range(20)]


def at_once(calls: Sequence[Callable[[], Any]]) -> list[int]:
    """Run all of these concurrently and return the status of each, 200 for success."""
    together = threading.Barrier(len(calls))

    def do(call: Callable[[], Any]) -> int:
        together.wait(timeout=60)
        try:
            call()
        except ApiError as error:
            return error.problem.status
        finally:
            connection.close()
        return 200

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(do, calls))


def test_c4_one_of_twenty_concurrent_accepts_succeeds(lamp: Product, written: Review, moderators: list[User]):
    report(written, reporter("ann"))
    statuses = at_once([partial(decide, "accepted", written, moderator) for moderator in moderators])

    assert Counter(statuses) == {200: 1, 404: 19}
    assert Decision.objects.count() == AuditEntry.objects.count() == 1
    assert Reporter.objects.get().agreed == 1
    lamp.refresh_from_db()
    assert (lamp.rating_sum, lamp.rating_count) == (0, 0)


@pytest.mark.parametrize("minutes", [10, 0])
def test_one_of_twenty_conflicting_decisions_succeeds(
    written: Review, moderators: list[User], settings: Settings, minutes: int
):
    settings.MODERATION_UNDO_WINDOW = minutes * MINUTE
    report(written, reporter("ann"))
    actions = ["accepted", "rejected"] * 10
    statuses = at_once(
        [partial(decide, action, written, one) for action, one in zip(actions, moderators, strict=True)]
    )  # fmt: skip

    assert statuses.count(200) == 1
    assert set(statuses) <= {200, 404, 409}
    decision = Decision.objects.get()
    written.refresh_from_db()
    assert (written.deleted_at is None) == (decision.action == "rejected")
    judged = Reporter.objects.get()
    assert (judged.agreed, judged.disagreed) == ((1, 0) if decision.action == "accepted" else (0, 1))


def test_concurrent_moderators_decide_each_case_of_a_queue_once(lamp: Product, moderators: list[User]):
    reporters = [reporter(f"r{number}") for number in range(3)]
    contents = [review(reporter(f"author{number}"), lamp, 3) for number in range(5)]
    for content in contents:
        for one in reporters:
            report(content, one)
    calls = [
        partial(decide, "accepted" if number % 2 else "rejected", content, moderator)
        for number, moderator in enumerate(moderators)
        for content in contents
    ]
    statuses = at_once(calls)

    assert statuses.count(200) == 5
    assert set(statuses) <= {200, 404, 409}
    assert Counter(Decision.objects.values_list("case_id", flat=True)) == dict.fromkeys(
        Case.objects.values_list("pk", flat=True), 1
    )
    assert {one.agreed + one.disagreed for one in Reporter.objects.all()} == {5}
    lamp.refresh_from_db()
    assert lamp.rating_count == Review.objects.visible().count()


def test_concurrent_reports_are_all_counted_and_hide_once(written: Review):
    reporters = [reporter(f"r{number}") for number in range(20)]
    statuses = at_once([partial(report, written, one) for one in reporters])

    case = case_of(written)
    written.refresh_from_db()
    assert Counter(statuses) == {200: 5, 404: 15}  # the fifth hides it
    assert (case.reports_count, case.trusted_count, case.weight, case.hiding) == (5, 5, 2500, "automatic")
    assert (written.abusive_reports_count, AbuseReport.objects.count(), Decision.objects.count()) == (5, 5, 1)


def test_concurrent_deletion_decision_and_reports_leave_consistent_figures(lamp: Product, moderators: list[User]):
    for number in range(4):
        content = review(reporter(f"author{number}"), lamp, 3)
        report(content, reporter(f"first{number}"))
        others = [reporter(f"r{number}-{one}") for one in range(4)]
        at_once(
            [
                partial(decide, "accepted", content, moderators[0]),
                partial(decide, "rejected", content, moderators[1]),
                partial(delete_review, review_id=content.pk, actor=content.user, now=NOON),
                *(partial(report, content, one) for one in others),
            ]
        )
        case = case_of(content)
        still_open = AbuseReport.objects.of("Review", content.pk).filter(status="open").count()
        assert (case.reports_count, case.is_waiting) == (still_open, still_open > 0)
        content.refresh_from_db()
        assert content.abusive_reports_count == AbuseReport.objects.of("Review", content.pk).count()
    lamp.refresh_from_db()
    assert lamp.rating_count == Review.objects.visible().count()


def test_one_of_twenty_concurrent_undos_succeeds(written: Review, moderators: list[User]):
    report(written, reporter("ann"))
    decision = decide("rejected", written, moderators[0])
    statuses = at_once([partial(undo, decision, moderator) for moderator in moderators])

    assert Counter(statuses) == {200: 1, 409: 19}
    assert AbuseReport.objects.count() == 1
    assert Reporter.objects.get().disagreed == 0


def test_concurrent_senders_deliver_each_email_once(lamp: Product, admin: User):
    for number in range(30):
        decide("accepted", review(reporter(f"author{number}"), lamp, 3), admin)
    at_once([partial(send_notices, clock=lambda: NOON + DAY)] * 4)

    assert Counter(letter.to[0] for letter in mail.outbox) == dict.fromkeys(
        Notice.objects.values_list("user__email", flat=True), 1
    )
    assert not Notice.objects.filter(mailed_at=None).exists()


def test_either_the_undo_or_the_delivery_of_a_notice_succeeds(lamp: Product, admin: User):
    for number in range(10):
        decision = decide("accepted", review(reporter(f"author{number}"), lamp, 3), admin)
        before = len(mail.outbox)
        undone, _sent = at_once(
            [
                partial(undo, decision, admin, at=NOON + 10 * MINUTE - MINUTE / 60),
                partial(send_notices, clock=lambda: NOON + 10 * MINUTE),
            ]
        )
        letters = [letter.to[0] for letter in mail.outbox[before:]]
        assert letters == ([] if undone == 200 else [decision.author.email])
        assert Notice.objects.filter(decision=decision).exists() == (undone == 409)


def test_one_of_twenty_concurrent_second_looks_counts(
    written: Review, admin: User, moderators: list[User], settings: Settings
):
    settings.MODERATION_SECOND_LOOK_INTERVAL = 1
    report(written, reporter("ann"))
    decide("accepted", written, admin)
    look = SecondLook.objects.get()

    verdicts = ["accepted", "rejected"] * 10
    statuses = at_once(
        [
            partial(decide_second_look, look_id=look.pk, verdict=verdict, moderator=moderator, now=NOON)
            for verdict, moderator in zip(verdicts, moderators, strict=True)
        ]
    )

    assert Counter(statuses) == {200: 1, 409: 19}
    look.refresh_from_db()
    assert AuditEntry.objects.get(action="moderation.second_look").actor == look.moderator
