"""Reasons of reports, due times, and templates of the texts that moderators send."""

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import translation

from commerce.moderation.models import AbuseReport, DecisionTemplate, ReportReason
from commerce.moderation.models.reasons import (
    DEFAULT_REASONS,
    create_default_reasons,
    fill_placeholders,
    unknown_placeholders,
)
from commerce.moderation.queue.listing import QueueFilters, filter_queue
from commerce.moderation.services import file_report
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from tests.commerce.conftest import ApiClient
from tests.commerce.moderation.factories import NOON, case_of, decide, report, reporter, undo

pytestmark = pytest.mark.django_db
QUEUE = "/admin/commerce_moderation/case/"


def report_for(code: str | None, content: Review | Question, name: str, hours: int = 0) -> AbuseReport:
    reason = ReportReason.objects.get(code=code) if code else None
    return file_report(
        user=reporter(name), model_type=type(content).__name__, model_id=content.pk, message="Look.", reason=reason,
        now=NOON + timedelta(hours=hours),
    )  # fmt: skip


def test_a_new_database_has_the_reasons_and_keeps_what_was_changed():
    assert [reason.code for reason in ReportReason.objects.all()] == [code for code, *_rest in DEFAULT_REASONS]
    ReportReason.objects.exclude(code="spam").delete()
    create_default_reasons()
    assert ReportReason.objects.count() == 1


def test_a_reason_of_a_new_database_has_a_name_in_each_language():
    with translation.override("de"):
        assert str(ReportReason.objects.get(code="hate")) == "Hass"


def test_a_case_has_its_most_severe_reason_and_is_due_with_the_first_report(written: Review, asked: Question):
    report_for(None, written, "ann")
    assert (case_of(written).reason, case_of(written).severity) == (None, 0)
    assert case_of(written).due_at == NOON + timedelta(hours=72)
    report_for("hate", written, "bob", hours=5)
    report_for("spam", written, "cat", hours=6)
    report_for("spam", asked, "dan")

    case = case_of(written)
    assert case.reason is not None
    assert (case.reason.code, case.severity, case.due_at) == ("hate", 4, NOON + timedelta(hours=9))
    filtered = filter_queue(QueueFilters(reason_id=case.reason_id), now=NOON)
    assert [each.pk for each in filtered] == [case.pk]
    assert not filter_queue(QueueFilters(is_overdue=True), now=NOON + timedelta(hours=8)).exists()
    assert filter_queue(QueueFilters(is_overdue=True), now=NOON + timedelta(hours=10)).count() == 1
    assert [each.severity for each in filter_queue(QueueFilters(), order="most_severe", now=NOON)] == [4, 1]


def test_a_decision_clears_the_reason_and_undo_restores_it(written: Review, admin: User):
    report_for("hate", written, "ann")
    before = case_of(written)
    decision = decide("rejected", written, admin)
    assert (case_of(written).reason, case_of(written).due_at) == (None, None)
    undo(decision, admin)

    restored = case_of(written)
    assert (restored.reason, restored.severity, restored.due_at) == (before.reason, before.severity, before.due_at)
    assert AbuseReport.objects.get().reason == before.reason


class TestApi:
    def test_a_report_may_have_a_reason_by_which_the_list_is_filtered(
        self, client_of: ApiClient, written: Review, asked: Question, customer: User, admin: User
    ):
        body = {"model_type": "Review", "model_id": written.pk, "message": "Buy here."}
        made = client_of(customer).post(
            "/api/abusive_reports", body | {"reason": "spam"}, content_type="application/json"
        )
        assert (made.status_code, made.json()["reason"]) == (201, "spam")
        report(asked, reporter("ann"))

        def listed(query: str) -> list[str | None]:
            return [row["reason"] for row in client_of(admin).get(f"/api/abusive_reports{query}").json()["data"]]

        assert listed("?reason=spam") == ["spam"]
        assert listed("?reason=hate") == []
        assert sorted(map(str, listed(""))) == ["None", "spam"]

    @pytest.mark.parametrize("code", ["rude", "SPAM", 7, "x" * 100_000, ["spam"]])
    def test_an_unknown_reason_is_422_before_the_content_is_looked_up(
        self, client_of: ApiClient, customer: User, code: object
    ):
        body = {"model_type": "Nothing", "model_id": 1, "message": "Look.", "reason": code}
        refused = client_of(customer).post("/api/abusive_reports", body, content_type="application/json")

        assert refused.status_code == 422
        assert list(refused.json()["errors"]) == ["reason"]

    def test_a_reason_that_is_switched_off_is_not_offered(self, client_of: ApiClient, customer: User, written: Review):
        ReportReason.objects.filter(code="fake").update(is_active=False)
        codes = [reason["code"] for reason in Client().get("/api/report-reasons").json()]
        assert len(codes) == len(DEFAULT_REASONS) - 1

        body = {"model_type": "Review", "model_id": written.pk, "message": "Look.", "reason": "fake"}
        refused = client_of(customer).post("/api/abusive_reports", body, content_type="application/json")
        assert refused.json()["errors"]["reason"] == [
            "There is no reason 'fake'. Send one of spam, harassment, hate, sexual, illegal, off_topic, personal_data, "
            "other."
        ]


class TestTemplates:
    def test_placeholders_are_filled_and_unknown_ones_are_found(self):
        text = "{product} of {shop}: {why} {why} { product } {}"
        assert unknown_placeholders(text) == ["{why}"]
        assert fill_placeholders(text, {"product": "{shop}", "shop": "A"}) == "{shop} of A: {why} {why} { product } {}"
        assert unknown_placeholders("{" * 100_000) == []

    def test_a_template_with_an_unknown_placeholder_is_refused(self):
        with pytest.raises(ValidationError, match=r"Nothing fills \{why\}"):
            DecisionTemplate(name="A", text="{product}: {why}").full_clean()

    def test_each_item_gets_its_own_text(self, written: Review, admin: User):
        reason = "{product} of {shop}, {appeal_days} days"
        decision = decide("accepted", written, admin, reason=reason, is_template=True)
        assert decision.reason == f"{written.product.name} of {written.shop.name}, 14 days"

    def test_the_api_sends_what_it_gets(self, written: Review, admin: User):
        decision = decide("accepted", written, admin, reason="{product}")
        assert decision.reason == "{product}"

    def test_moderators_choose_a_template_and_fill_what_nothing_fills(self, written: Review, admin: User):
        report(written, reporter("ann"))
        client = Client()
        client.force_login(admin)
        template = DecisionTemplate.objects.create(name="Advertising", text="No advertising for {product}.")
        assert 'data-text="No advertising for {product}."' in client.get(QUEUE).content.decode()
        url = f"{QUEUE}{case_of(written).pk}/decide/"
        headers = {"Accept": "application/json"}

        refused = client.post(url, {"action": "accepted", "reason": "See {rule}."}, headers=headers)
        assert refused.status_code == 422
        assert "{rule}" in refused.json()["outcome"]
        assert "case" not in refused.json()  # it is still to be decided
        done = client.post(url, {"action": "accepted", "template": template.pk}, headers=headers)
        assert done.status_code == 200
        last = case_of(written).last_decision
        assert last is not None
        assert last.reason == f"No advertising for {written.product.name}."
