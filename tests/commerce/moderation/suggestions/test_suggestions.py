"""Suggestions on the case page: what is learned, shown, taken over and counted, and what withdraws them."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.moderation.models import (
    Case,
    CaseVector,
    Decision,
    DecisionSuggestion,
    DecisionTemplate,
    ReportReason,
    SuggestionModel,
)
from commerce.moderation.suggestions import reading
from commerce.moderation.suggestions.training import MIN_INTERVAL, update_suggestion_model
from commerce.moderation.suggestions.vectors import update_case_vectors
from commerce.moderation.tasks import update_suggestions
from commerce.reviews.models import Question
from shared.accounts.models import User
from tests.commerce.conftest import ApiClient
from tests.commerce.moderation.factories import DAY, decide, report, reporter
from tests.commerce.moderation.suggestions.waiting_cases import waiting
from tests.commerce.search.embedding_server import EmbeddingServer

pytestmark = pytest.mark.django_db
PAGES = "/admin/commerce_moderation/case/"
SUGGESTED = "Suggestion: take it down (Spam or advertising)."


def page(desk: Client, case: Case) -> str:
    return desk.get(f"{PAGES}{case.pk}/change/").content.decode()


@pytest.fixture
def case(server: EmbeddingServer, past: list[Decision], lamp: Product, customer: User) -> Case:
    """Return a waiting case about a lamp, when the worker has learned from the past."""
    case = waiting(customer, lamp, "Buy this lamp today")
    update_suggestions()
    assert SuggestionModel.objects.get().decisions_count == len(past)
    return case


def test_a_case_shows_a_suggestion_with_its_precision_and_the_most_similar_decisions(desk: Client, case: Case):
    shown = page(desk, case)
    assert SUGGESTED in shown
    rule = SuggestionModel.objects.get().rules["Question"]["accepted"]
    assert rule["precision"] >= 0.95
    measured = f"of {rule['suggestions']} such suggestions about others of them, {rule['precision'] * 100:.0f} % were"
    assert measured in shown
    assert "Similar past decisions" in shown
    assert "% similar" in shown
    assert "Buy my lamp number" in shown
    assert "Buy my pillow number" not in shown
    assert Case.objects.get(pk=case.pk).state == Case.State.OPEN  # nothing is decided by it


def test_what_was_kept_suggests_to_keep(desk: Client, case: Case, lamp: Product, customer: User):
    other = waiting(customer, lamp, "A pillow for the night", "bob")
    update_case_vectors(now=timezone.now())
    assert "Suggestion: keep it." in page(desk, other)


def test_content_that_changed_has_no_suggestion_until_it_is_embedded_again(desk: Client, case: Case):
    Question.objects.filter(pk=case.model_id).update(question="Buy this pillow", updated_at=timezone.now())
    changed = page(desk, case)
    assert "Suggestion:" not in changed
    assert "Similar past decisions" not in changed
    update_case_vectors(now=timezone.now())
    assert "Suggestion: keep it." in page(desk, case)


def test_a_new_report_changes_the_texts_that_are_compared(desk: Client, case: Case):
    report(Question.objects.get(pk=case.model_id), reporter("zoe"), at=timezone.now(), message="Me too.")
    assert "Suggestion:" not in page(desk, case)
    update_case_vectors(now=timezone.now())
    assert SUGGESTED in page(desk, case)


def test_the_template_of_the_reason_is_taken_over_and_agreement_is_counted(desk: Client, case: Case):
    spam = ReportReason.objects.get(code="spam")
    template = DecisionTemplate.objects.create(name="Advertising", text="No advertising.", reason=spam)
    assert f'data-take="accepted" data-template="{template.pk}"' in page(desk, case)
    assert "Suggestions that moderators followed" not in desk.get(f"{PAGES}statistics/").content.decode()

    desk.post(f"{PAGES}{case.pk}/decide/", {"action": "accepted", "suggested": "accepted", "template": template.pk})

    decision = Decision.objects.get(case=case)
    assert decision.reason == "No advertising."
    assert DecisionSuggestion.objects.get().decision == decision
    statistics = " ".join(desk.get(f"{PAGES}statistics/").content.decode().split())
    assert "Suggestions that moderators followed, in 30 days</dt><dd>1 of 1</dd>" in statistics


def test_a_verdict_against_the_suggestion_counts_as_shown_and_an_undone_one_not_at_all(desk: Client, case: Case):
    desk.post(f"{PAGES}{case.pk}/decide/", {"action": "rejected", "suggested": "accepted"})
    assert "<dd>0 of 1</dd>" in desk.get(f"{PAGES}statistics/").content.decode()
    desk.post(f"{PAGES}undo/{Decision.objects.get(case=case).pk}/")
    assert "Suggestions that moderators followed" not in desk.get(f"{PAGES}statistics/").content.decode()
    assert SUGGESTED in page(desk, case) or update_case_vectors(now=timezone.now()) == 0


def test_a_hidden_field_with_another_value_decides_nothing(desk: Client, case: Case):
    answer = desk.post(
        f"{PAGES}{case.pk}/decide/",
        {"action": "accepted", "suggested": "banned"},
        headers={"accept": "application/json"},
    )
    assert answer.status_code == 422
    assert not Decision.objects.filter(case=case).exists()


def test_near_identical_cases_are_grouped_and_decided_at_once(desk: Client, case: Case, lamp: Product, customer: User):
    others = [waiting(customer, lamp, f"Buy this  lamp today{'!' * number}", f"r{number}") for number in range(3)]
    alone = waiting(customer, lamp, "Does the dog like the kennel at night?", "sam")
    update_case_vectors(now=timezone.now())
    ids = [case.pk, *(other.pk for other in others)]

    shown = page(desk, case)
    assert "4 items that wait say nearly the same." in shown
    assert "say nearly the same" not in page(desk, alone)
    assert desk.get(PAGES).content.decode().count("4 alike") >= 4

    preview = desk.post(
        reverse("admin:commerce_moderation_preview"), {"action": "accepted", "case": ids}
    ).content.decode()
    assert "4 items" in preview
    desk.post(reverse("admin:commerce_moderation_decide_many"), {"action": "accepted", "case": ids})
    assert set(Case.objects.filter(pk__in=ids).values_list("state", flat=True)) == {Case.State.ACCEPTED}
    assert Case.objects.get(pk=alone.pk).state == Case.State.OPEN


def test_the_queue_works_as_before_when_the_model_server_is_away(
    server: EmbeddingServer, past: list[Decision], lamp: Product, customer: User, desk: Client
):
    server.stop_answering()
    case = waiting(customer, lamp, "Buy this lamp today")
    update_suggestions()
    assert not CaseVector.objects.exists()
    assert "Suggestion:" not in page(desk, case)
    assert desk.post(f"{PAGES}{case.pk}/decide/", {"action": "accepted"}).status_code == 302
    assert Case.objects.get(pk=case.pk).state == Case.State.ACCEPTED


def test_the_switch_turns_everything_off(desk: Client, case: Case, settings: Settings, server: EmbeddingServer):
    settings.MODERATION_SUGGESTIONS = False
    sent = len(server.texts)
    CaseVector.objects.all().delete()
    update_suggestions()
    assert len(server.texts) == sent
    assert "Suggestion:" not in page(desk, case)
    assert "Similar past decisions" not in page(desk, case)


def test_vectors_of_another_model_or_size_are_never_compared(
    desk: Client, case: Case, settings: Settings, server: EmbeddingServer
):
    server.sizes["other"] = 8
    settings.SEARCH_MODEL = "other"
    assert "Suggestion:" not in page(desk, case)
    update_case_vectors(now=timezone.now())
    CaseVector.objects.filter(case=case).update(dimensions=4, vector=b"\0" * 28)
    assert update_suggestion_model(now=timezone.now())
    assert "Suggestion:" not in page(desk, case)


def test_an_imprecise_past_suggests_nothing_and_still_shows_what_is_similar(
    server: EmbeddingServer, past: list[Decision], lamp: Product, customer: User, desk: Client
):
    for number, decision in enumerate(past):  # lamps and pillows alike were taken down as often as kept
        state = "accepted" if number // 2 % 2 else "rejected"
        Case.objects.filter(pk=decision.case_id).update(state=state)
        Decision.objects.filter(pk=decision.pk).update(action=state)
    case = waiting(customer, lamp, "Buy this lamp today")
    update_suggestions()
    assert SuggestionModel.objects.get().rules == {"Review": {}, "Question": {}}
    shown = page(desk, case)
    assert "Suggestion:" not in shown
    assert "Similar past decisions" in shown


def test_undone_and_overturned_decisions_are_neither_learned_nor_shown(
    server: EmbeddingServer, past: list[Decision], desk: Client, lamp: Product, customer: User
):
    Decision.objects.filter(pk__in=[decision.pk for decision in past[:40]]).update(undone_at=timezone.now())
    Decision.objects.filter(pk__in=[decision.pk for decision in past[40:60]]).update(action="restored")
    update_suggestions()
    assert SuggestionModel.objects.get().decisions_count == 60
    now = timezone.now() + MIN_INTERVAL
    assert not update_suggestion_model(now=now)  # nothing new
    case = waiting(customer, lamp, "Buy this lamp today")
    update_case_vectors(now=now)
    assert "Similar past decisions" in page(desk, case)
    Decision.objects.update(undone_at=now)
    assert "Similar past decisions" not in page(desk, case)
    assert not update_suggestion_model(now=now + DAY)
    reading.forget_knowledge()  # a process looks every few seconds
    assert "Suggestion:" not in page(desk, case)


def test_only_moderators_read_suggestions(case: Case, client_of: ApiClient, customer: User):
    for address in ("/api/my-reports", f"/api/questions/{case.model_id}", "/api/questions"):
        body = client_of(customer).get(address).content.decode().lower()
        assert "suggest" not in body
        assert "similar" not in body
    client = Client()
    client.force_login(customer)
    assert client.get(f"{PAGES}{case.pk}/change/").status_code in (302, 403)


def test_a_case_page_costs_few_queries_more(desk: Client, case: Case, settings: Settings):
    page(desk, case)

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            page(desk, case)
        return len(queries)

    with_suggestion = count()
    settings.MODERATION_SUGGESTIONS = False
    assert with_suggestion - count() <= 3


def test_an_unchanged_case_is_not_embedded_again(case: Case, server: EmbeddingServer, admin: User):
    sent = len(server.texts)
    assert update_case_vectors(now=timezone.now()) == 0
    Case.objects.filter(pk=case.pk).update(updated_at=timezone.now())
    assert update_case_vectors(now=timezone.now()) == 0
    assert len(server.texts) == sent
    decide("accept_report", Question.objects.get(pk=case.model_id), admin, at=timezone.now())
    assert update_case_vectors(now=timezone.now() + DAY) == 0  # the texts of the decision are the same
    assert len(server.texts) == sent
