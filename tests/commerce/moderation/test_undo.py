"""Undo of decisions: for ten minutes, everything returns to its former state."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import models

from commerce.catalog.models import Product
from commerce.moderation.appeals import file_appeal
from commerce.moderation.models import AbuseReport, Case, Decision, Notice, Reporter
from commerce.moderation.models.snapshots import NOT_RESTORED_CASE_FIELDS, content_record, state_record
from commerce.moderation.services import delete_report
from commerce.reviews.models import Question, Review
from commerce.reviews.services import delete_review
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.audit.models import AuditEntry
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, case_of, decide, report, reporter, rows, undo
from tests.commerce.reviews.factories import ask

pytestmark = pytest.mark.django_db

EVERYTHING = (AbuseReport, Case, Review, Question, Product, Notice, Reporter)
ACTIONS: dict[str, Callable[[Review, User], Decision]] = {
    "accept": lambda written, admin: decide("accepted", written, admin),
    "reject": lambda written, admin: decide("rejected", written, admin),
    "hide": lambda written, admin: decide("hidden", written, admin),
    "warn": lambda written, admin: decide("warned", written, admin),
    "delete a report": lambda written, admin: delete_report(
        report_id=AbuseReport.objects.latest("pk").pk, moderator=admin, now=NOON
    ),
}
SAMPLES: dict[type, Any] = {
    models.BigIntegerField: 2**40,
    models.CharField: "sample",
    models.DateTimeField: NOON - DAY - timedelta(microseconds=1),
    models.PositiveSmallIntegerField: 123,
    models.TextField: "A sample, \u00e9.",
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
def test_undo_restores_everything(written: Review, admin: User, action: str, hidden: bool):
    for number, name in enumerate(["ann", "bob", "cleo"]):
        report(written, reporter(name, age=number * DAY, agreed=number + 1), at=NOON + number * MINUTE)
    if hidden:
        decide("hidden", written, admin)
    before, reports = state(), rows(AbuseReport)

    decision = ACTIONS[action](written, admin)
    assert state() != before
    undone = undo(decision, admin, at=NOON + 9 * MINUTE)

    assert state() == before
    assert rows(AbuseReport) == reports  # to the microsecond
    assert (undone.undone_by, undone.undone_at) == (admin, NOON + 9 * MINUTE)
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.details["decision_id"]) == ("moderation.undone", decision.pk)


def test_a_restoration_can_be_undone(written: Review, admin: User):
    report(written, reporter("ann"))
    decide("accepted", written, admin)
    before = state()
    undo(decide("restored", written, admin, at=NOON + DAY), admin, at=NOON + DAY)

    assert state() == before
    assert case_of(written).state == "accepted"


def test_undo_is_refused_after_ten_minutes(written: Review, admin: User):
    report(written, reporter("ann"))
    decision = decide("accepted", written, admin)

    assert status_of(decision, admin, at=NOON + 10 * MINUTE) == 409
    undo(decision, admin, at=NOON + 9 * MINUTE)
    assert status_of(decision, admin) == 409


def test_decisions_are_undone_from_the_last_one_back(written: Review, admin: User):
    report(written, reporter("ann", agreed=1))
    before = state()
    warned = decide("warned", written, admin)
    accepted = decide("accepted", written, admin)

    assert status_of(warned, admin) == 409
    undo(accepted, admin)
    undo(warned, admin)
    assert state() == before


def test_reports_made_since_the_decision_wait_beside_the_restored_ones(written: Review, admin: User):
    ann, bob = reporter("ann"), reporter("bob")
    report(written, ann, message="First.")
    decision = decide("rejected", written, admin)
    report(written, ann, at=NOON + MINUTE, message="Again.")
    report(written, bob, at=NOON + MINUTE, message="Third.")
    undo(decision, admin, at=NOON + 2 * MINUTE)

    assert set(AbuseReport.objects.values_list("message", flat=True)) == {"Again.", "Third."}
    case = case_of(written)
    written.refresh_from_db()
    assert (case.state, case.reports_count, written.abusive_reports_count) == ("open", 2, 2)


def test_content_that_its_author_deleted_since_is_not_restored(written: Review, customer: User, admin: User):
    report(written, reporter("ann"))
    decision = decide("warned", written, admin)
    delete_review(review_id=written.pk, actor=customer, now=NOON + MINUTE)

    assert status_of(decision, admin, at=NOON + MINUTE) == 409


def test_undo_of_an_unknown_decision_is_404(admin: User):
    assert status_of(Decision(pk=2**62), admin) == 404


def test_undo_of_a_restoration_is_refused_with_new_reports(written: Review, admin: User):
    report(written, reporter("ann"))
    decide("accepted", written, admin)
    restored = decide("restored", written, admin, at=NOON + MINUTE)
    report(written, reporter("bob"), at=NOON + 2 * MINUTE)

    assert status_of(restored, admin, at=NOON + 3 * MINUTE) == 409
    decide("accepted", written, admin, at=NOON + 4 * MINUTE)
    assert case_of(written).state == "accepted"


def test_undo_is_refused_after_an_appeal(written: Review, customer: User, admin: User):
    report(written, reporter("ann"))
    decision = decide("accepted", written, admin)
    notice = decision.notices.get(user=customer)
    file_appeal(author=customer, notice_id=notice.pk, message="Mine.", now=decision.undo_until)

    assert status_of(decision, admin, at=decision.undo_until - timedelta(microseconds=1)) == 409


def other_value(field: Any) -> Any:
    """Return a value of a field that is neither its default nor one that a decision sets."""
    if field.choices:
        return next(value for value, _label in field.choices if value not in (field.default, "accepted", "automatic"))
    sample = SAMPLES[type(field)]
    assert sample != field.default
    return sample


@pytest.mark.parametrize("action", ["accepted", "rejected"])
@pytest.mark.parametrize(
    "field",
    [field for field in AbuseReport._meta.concrete_fields if type(field) in SAMPLES and field.name != "model_type"],
    ids=lambda field: field.name,
)
def test_undo_keeps_every_field_of_a_report(written: Review, admin: User, action: str, field: Any):
    """A new field of the model is covered; one of a new type needs a sample."""
    made = report(written, reporter("ann"))
    if field.name not in ("status", "model_id"):  # the decision finds the report by these
        AbuseReport.objects.filter(pk=made.pk).update(**{field.name: other_value(field)})
    before = rows(AbuseReport)

    undo(decide(action, written, admin), admin)

    assert rows(AbuseReport) == before


def test_every_type_of_field_of_a_report_has_a_sample():
    types = {type(field) for field in AbuseReport._meta.concrete_fields}
    assert types - SAMPLES.keys() == {models.BigAutoField, models.ForeignKey}


def test_a_field_of_a_case_is_restored_unless_it_is_listed_as_derived():
    restored = state_record(Case(), Review()).keys() - {"content"}
    names = {field.name for field in Case._meta.concrete_fields}

    assert restored == {"state", "hiding", "is_cleared", "is_escalated", "last_decision_id"}
    assert names > NOT_RESTORED_CASE_FIELDS


# What the case or the reports have, and times.
NOT_RECORDED_CONTENT_FIELDS = {
    "id", "shop_id", "order_id", "abusive_reports_count", "hidden_at", "deleted_at", "created_at", "updated_at",
    "answered_at",
}  # fmt: skip


def test_every_other_field_of_reported_content_is_recorded(written: Review):
    for content in (written, ask(written.user, written.product)):
        fields = [*content._meta.concrete_fields, *content._meta.many_to_many]
        recorded = {field.attname for field in fields} - NOT_RECORDED_CONTENT_FIELDS
        assert content_record(content).keys() == recorded | {"product"}


def test_undo_keeps_the_message_of_an_erased_reporter_empty(written: Review, admin: User):
    made = report(written, reporter("ann"), message="Mine.")
    decision = decide("accepted", written, admin)
    AbuseReport.objects.filter(pk=made.pk).update(message="")

    undo(decision, admin)

    assert AbuseReport.objects.get().message == ""


def test_a_decision_that_an_earlier_version_recorded_is_undone(written: Review, admin: User):
    """Its reports lack the kind and the id of the content."""
    report(written, reporter("ann"))
    before = rows(AbuseReport)
    decision = decide("rejected", written, admin)
    (record,) = decision.reports
    old = ("id", "user_id", "message", "status", "weight", "standing", "created_at", "updated_at")
    Decision.objects.filter(pk=decision.pk).update(reports=[{name: record[name] for name in old}])

    undo(decision, admin)

    assert rows(AbuseReport) == before
