"""Vectors of cases: what is embedded and shortened, what is alike, and what is deleted."""

from datetime import timedelta

import numpy as np
import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.model_server.embeddings import cut_text, embeddings_client
from commerce.moderation.appeals import decide_appeal, file_appeal
from commerce.moderation.models import Case, CaseVector, Decision, Notice, SuggestionModel
from commerce.moderation.suggestions import reading, training
from commerce.moderation.suggestions.case_texts import read_case_texts
from commerce.moderation.suggestions.reading import alike_cases
from commerce.moderation.suggestions.training import ABANDONED_AFTER, MIN_INTERVAL, update_suggestion_model
from commerce.moderation.suggestions.vectors import (
    CALL_TIMEOUT_SECONDS,
    MAX_PART_SIZE,
    content_part,
    project,
    update_case_vectors,
)
from commerce.moderation.tasks import update_suggestions
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from shared.accounts.personal_data.erasure import erase_person
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, decide, report, reporter
from tests.commerce.moderation.suggestions.waiting_cases import reported, waiting
from tests.commerce.reviews.factories import review
from tests.commerce.search.embedding_server import EmbeddingServer

pytestmark = pytest.mark.django_db


def update() -> int:
    return update_case_vectors(now=timezone.now())


def edit(case: Case, text: str) -> None:
    Question.objects.filter(pk=case.model_id).update(question=text, updated_at=timezone.now())


def test_a_long_text_is_shortened_and_stops_no_other(server: EmbeddingServer, lamp: Product, customer: User):
    server.max_length = 100
    long, short = (waiting(customer, lamp, text, text[:3]) for text in ("A lamp. " * 70, "Is it warm?"))
    assert update() == 2
    assert {row.case_id for row in CaseVector.objects.all() if content_part(row).any()} == {long.pk, short.pk}


def test_a_text_that_is_always_refused_is_marked_and_sent_once(server: EmbeddingServer, lamp: Product, customer: User):
    server.refused_word = "forbidden"
    bad, good = (waiting(customer, lamp, text, text[:3]) for text in ("A forbidden lamp", "Is it warm?"))
    assert update() == 2
    assert not content_part(CaseVector.objects.get(case=bad)).any()
    assert content_part(CaseVector.objects.get(case=good)).any()
    calls = len(server.models)
    assert update() == 0
    assert len(server.models) == calls
    client = embeddings_client(
        base_url=server.url, api_key="sk-shop", timeout_seconds=CALL_TIMEOUT_SECONDS
    )  # whose breaker the search shares
    assert len(client.embed("concepts", ["lamp"])) == 1


def test_no_text_is_marked_when_the_server_refuses_all(server: EmbeddingServer, lamp: Product, customer: User):
    server.max_length = 0
    waiting(customer, lamp, "Is it warm?")
    assert update() == 0
    assert not CaseVector.objects.exists()
    server.max_length = None
    assert update() == 1


def test_texts_are_cut_by_what_they_cost_a_model():
    assert len(cut_text("a" * 2000)) == 650
    assert len(cut_text("灯" * 2000)) == 216
    assert cut_text("short") == "short"


def test_the_whole_text_and_the_rating_tell_whether_a_case_has_changed(
    server: EmbeddingServer, lamp: Product, customer: User
):
    long, rated = waiting(customer, lamp, "lamp " * 300), reported(review(customer, lamp, 1, comment="Bad."), "bob")
    before = {text.case.pk: text.fingerprint for text in read_case_texts([long.pk, rated.pk])}
    edit(long, "lamp " * 300 + "and more")
    Review.objects.update(rating=5)
    after = {text.case.pk: text.fingerprint for text in read_case_texts([long.pk, rated.pk])}
    assert before[long.pk] != after[long.pk]
    assert before[rated.pk] != after[rated.pk]


def test_content_without_a_text_is_alike_to_nothing(
    server: EmbeddingServer, lamp: Product, customer: User, colleague: User
):
    cases = [reported(review(author, lamp, 1, comment=""), author.name[:3]) for author in (customer, colleague)]
    assert update() == 2
    assert [alike_cases(case.pk) for case in cases] == [[], []]
    assert len(set(CaseVector.objects.values_list("group", flat=True))) == 2
    assert "-" not in server.texts


def test_similarity_is_that_of_the_parts_that_exist(
    server: EmbeddingServer, past: list[Decision], lamp: Product, customer: User
):
    case = waiting(customer, lamp, "Buy my lamp number 1")
    update_suggestions()
    knowledge = reading._read_knowledge()
    assert knowledge is not None
    knowledge.vectors[:, 64:128] = 0  # the past reports had no text
    row = CaseVector.objects.get(case=case)
    row.vector = b"".join((row.vector[: 2 * 64], b"\0" * 2 * 64, row.vector[4 * 64 :]))
    assert reading._similarities(knowledge, "Question", row).max() == pytest.approx(1, abs=0.01)


def test_an_edited_first_case_leaves_its_group(server: EmbeddingServer, lamp: Product, customer: User):
    first, *others = (waiting(customer, lamp, f"Buy this lamp{'!' * number}", f"r{number}") for number in range(3))
    update()
    assert alike_cases(first.pk) == [first.pk, *(case.pk for case in others)]
    edit(first, "Does the dog sleep?")
    assert alike_cases(others[0].pk) == [case.pk for case in others]  # also before it is embedded again
    update()
    assert alike_cases(first.pk) == [first.pk]
    assert alike_cases(others[0].pk) == [case.pk for case in others]
    rows = {row.case_id: row.group for row in CaseVector.objects.all()}
    assert rows[first.pk] != rows[others[0].pk]


def test_the_list_of_a_case_has_the_case_and_the_oldest_others(
    server: EmbeddingServer, lamp: Product, customer: User, monkeypatch: pytest.MonkeyPatch
):
    cases = [waiting(customer, lamp, "Buy this lamp", f"r{number}") for number in range(4)]
    update()
    monkeypatch.setattr(reading, "MAX_ALIKE", 3)
    assert alike_cases(cases[-1].pk) == [cases[0].pk, cases[1].pk, cases[-1].pk]


def test_a_removal_that_an_appeal_confirmed_keeps_its_texts_and_reports(
    server: EmbeddingServer, written: Review, admin: User, customer: User
):
    report(written, reporter("ann"), message="It names a rival.")
    removal = decide("accepted", written, admin)
    [before] = read_case_texts([removal.case_id])
    at = NOON + 10 * MINUTE
    made = file_appeal(author=customer, notice_id=Notice.objects.get(kind="content_removed").pk, message="No.", now=at)
    decide_appeal(appeal_id=made.pk, overturn=False, moderator=admin, now=at + DAY)
    [after] = read_case_texts([removal.case_id])
    assert (after.reports, after.content) == ("It names a rival.", "Buy elsewhere.")
    assert after.fingerprint == before.fingerprint


def test_vectors_of_cases_that_are_not_compared_any_more_are_deleted(
    server: EmbeddingServer, past: list[Decision], lamp: Product, customer: User
):
    case = waiting(customer, lamp, "Is it warm?")
    update()
    assert CaseVector.objects.count() == len(past) + 1
    old = past[0].case_id
    Decision.objects.filter(pk=past[0].pk).update(undone_at=timezone.now())
    Case.objects.filter(pk=case.pk).update(state="closed", is_waiting=False)  # a moment ago: it may come back
    update()
    assert not CaseVector.objects.filter(case=old).exists()
    assert CaseVector.objects.filter(case=case).exists()


def test_workers_with_different_models_leave_each_other_s_vectors(
    server: EmbeddingServer, past: list[Decision], settings: Settings
):
    server.sizes["other"] = 32
    now = timezone.now()
    for name in ("concepts", "other", "concepts"):
        settings.SEARCH_MODEL = name
        calls = len(server.models)
        update_case_vectors(now=now)
        update_suggestion_model(now=now)
    assert len(server.models) == calls, "nothing was embedded again"
    assert CaseVector.objects.filter(model="other").count() == len(past)
    update_suggestion_model(now=now + ABANDONED_AFTER + MIN_INTERVAL)
    assert set(CaseVector.objects.values_list("model", flat=True)) == {"concepts"}
    assert SuggestionModel.objects.get().model == "concepts"


def test_the_vectors_of_an_erased_author_and_the_words_of_an_erased_reporter_are_gone(
    server: EmbeddingServer, past: list[Decision], lamp: Product, customer: User, colleague: User, admin: User
):
    mine, other = waiting(customer, lamp, "Is it warm?"), waiting(colleague, lamp, "Is it light?", "zoe")
    update()
    now = timezone.now()
    erase_person(user=customer, actor=admin, now=now)
    assert list(CaseVector.objects.values_list("case_id", flat=True)) == [other.pk]
    erase_person(user=User.objects.get(email__startswith="zoe"), actor=admin, now=now)
    assert not CaseVector.objects.exists()
    sent = len(server.texts)
    assert update() == 1
    assert server.texts[sent:] == ["Is it light?"]
    assert not CaseVector.objects.filter(case=mine).exists()


def test_long_vectors_are_projected_and_keep_their_likeness():
    random = np.random.default_rng(1)
    first, noise = random.normal(size=(2, 3072)).astype(np.float32)
    second = first + 0.2 * noise
    first, second = first / np.linalg.norm(first), second / np.linalg.norm(second)
    assert project(first).shape == (MAX_PART_SIZE,)
    assert project(first) @ project(second) == pytest.approx(first @ second, abs=0.01)
    assert project(first[:384] * 1) is not None
    assert (project(first[:384]) == first[:384]).all()


def test_the_vectors_of_a_large_model_cost_no_more_than_others(
    server: EmbeddingServer, past: list[Decision], lamp: Product, customer: User
):
    server.sizes["concepts"] = 3072
    case = waiting(customer, lamp, "Buy this lamp today")
    update_suggestions()
    model = SuggestionModel.objects.get()
    assert model.dimensions == 3072
    assert len(model.weights) == 4 * (2 * MAX_PART_SIZE + 7)
    assert reading.suggested_action(case.pk) == "accepted"


def test_a_training_that_failed_is_not_repeated_at_once(
    server: EmbeddingServer, past: list[Decision], monkeypatch: pytest.MonkeyPatch
):
    update()
    attempts: list[int] = []

    def fail(rows: list[CaseVector]) -> None:
        attempts.append(len(rows))
        raise MemoryError

    monkeypatch.setattr(training, "_learned", fail)
    now = timezone.now()
    with pytest.raises(MemoryError):
        update_suggestion_model(now=now)
    assert not update_suggestion_model(now=now + timedelta(seconds=30))
    assert attempts == [len(past)]
    with pytest.raises(MemoryError):
        update_suggestion_model(now=now + MIN_INTERVAL)


def test_the_first_training_follows_the_decision_that_allows_it(server: EmbeddingServer, past: list[Decision]):
    now = timezone.now()
    Decision.objects.filter(pk__in=[decision.pk for decision in past[49:]]).update(undone_at=now)
    update_case_vectors(now=now)
    assert not update_suggestion_model(now=now)
    Decision.objects.update(undone_at=None)
    update_case_vectors(now=now)
    assert update_suggestion_model(now=now)


def test_a_run_without_anything_to_do_writes_nothing(server: EmbeddingServer, past: list[Decision]):
    update_suggestions()
    with CaptureQueriesContext(connection) as queries:
        update_suggestions()
    assert [query["sql"] for query in queries if not query["sql"].startswith("SELECT")] == []
    tables = {model._meta.db_table for model in (CaseVector, SuggestionModel)}
    assert tables <= django_settings.UNCACHED_TABLES
