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
from commerce.moderation.queue.bulk import decide_case
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
    measured = f"{int(rule['precision'] * 100)} % of {rule['suggestions']} such suggestions were right when checked."
    assert f"Based on the moderators' decisions: {measured}" in shown
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
    update_case_vectors(now=timezone.now())
    assert SUGGESTED in page(desk, case)


def test_a_hidden_field_with_another_value_decides_nothing(desk: Client, case: Case):
    answer = desk.post(
        f"{PAGES}{case.pk}/decide/",
        {"action": "accepted", "suggested": "banned"},
        headers={"accept": "application/json"},
    )
    assert answer.status_code == 422
    assert not Decision.objects.filter(case=case).exists()


def test_only_a_verdict_that_is_suggested_counts_as_shown(
    desk: Client, case: Case, lamp: Product, customer: User, moderator: User
):
    others = [waiting(customer, lamp, text, text[-3:]) for text in ("A lamp", "A candle", "Buy a lantern")]
    update_case_vectors(now=timezone.now())
    assert SUGGESTED in page(desk, others[1])
    for other, action, suggested in zip(
        others, ("accepted", "accepted", "hidden"), ("rejected", "", "accepted"), strict=True
    ):
        desk.post(f"{PAGES}{other.pk}/decide/", {"action": action, "suggested": suggested})
    assert Decision.objects.filter(moderator=moderator, case__in=others).count() == 3
    assert not DecisionSuggestion.objects.exists()


def test_a_decision_is_not_made_if_its_suggestion_cannot_be_saved(
    case: Case, moderator: User, monkeypatch: pytest.MonkeyPatch
):
    def fail(**values: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(DecisionSuggestion.objects, "create", fail)
    with pytest.raises(RuntimeError):
        decide_case(case_id=case.pk, action="accepted", suggested="accepted", moderator=moderator, now=timezone.now())
    assert Case.objects.get(pk=case.pk).state == Case.State.OPEN
    assert not Decision.objects.filter(case=case).exists()


def test_a_template_in_another_language_is_not_taken_over(desk: Client, case: Case):
    spam = ReportReason.objects.get(code="spam")
    DecisionTemplate.objects.create(name="Werbung", text="Keine Werbung.", reason=spam, language="de")
    assert 'data-take="accepted" data-template=""' in page(desk, case)
    english = DecisionTemplate.objects.create(name="Spam", text="No spam.", reason=spam, language="en")
    Case.objects.filter(pk=case.pk).update(language="es")
    assert f'data-take="accepted" data-template="{english.pk}"' in page(desk, case)


def test_what_changed_since_the_preview_is_left_out(desk: Client, case: Case, lamp: Product, customer: User):
    other, edited = (waiting(customer, lamp, "Buy this lamp today!", name) for name in ("bob", "eve"))
    update_case_vectors(now=timezone.now())
    assert "3 items that wait say nearly the same." in page(desk, case)
    sent = {"action": "accepted", "case": [case.pk, other.pk, edited.pk], "like": case.pk, "suggested": "accepted"}
    assert "3 items" in desk.post(reverse("admin:commerce_moderation_preview"), sent).content.decode()

    Question.objects.filter(pk=edited.model_id).update(question="Is the lamp warm?", updated_at=timezone.now())
    preview = desk.post(reverse("admin:commerce_moderation_preview"), sent).content.decode()
    assert "2 items" in preview
    assert f'name="like" value="{case.pk}"' in preview
    outcome = desk.post(reverse("admin:commerce_moderation_decide_many"), sent).content.decode()

    assert "This has changed since it was compared: decide about it alone." in outcome
    assert set(Case.objects.filter(state="accepted", pk__in=sent["case"])) == {case, other}
    assert Case.objects.get(pk=edited.pk).state == Case.State.OPEN
    assert DecisionSuggestion.objects.get().decision.case == case  # it was shown beside this one


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
    client = Client()
    client.force_login(customer)
    for address in (f"{PAGES}{case.pk}/change/", f"{PAGES}?item={case.pk}", f"{PAGES}statistics/"):
        answer = client.get(address)
        assert answer.status_code in (302, 403)
        assert b"uggest" not in answer.content
    sent = {"action": "accepted", "case": [case.pk], "like": case.pk, "suggested": "accepted"}
    for name in ("preview", "decide_many"):
        assert client.post(reverse(f"admin:commerce_moderation_{name}"), sent).status_code in (302, 403)
    assert Case.objects.get(pk=case.pk).state == Case.State.OPEN
    secret = "Buy my lamp number"  # of similar decisions, about content that others wrote
    answer = client_of(customer).get("/api/my-reports")
    assert answer.status_code == 200
    assert secret not in answer.content.decode()


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
    decide("accepted", Question.objects.get(pk=case.model_id), admin, at=timezone.now())
    assert update_case_vectors(now=timezone.now() + DAY) == 0  # the texts of the decision are the same
    assert len(server.texts) == sent
