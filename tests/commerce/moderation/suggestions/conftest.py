"""A model server on a real socket, and past decisions of which half took down what names a lamp."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.model_server import embeddings
from commerce.moderation.models import Case, Decision, ReportReason
from commerce.moderation.suggestions import reading
from commerce.reviews.models import Question
from shared.accounts.models import User
from tests.commerce.moderation.factories import DAY, NOON
from tests.commerce.search.conftest import server as search_server  # noqa: F401  a fixture
from tests.commerce.search.embedding_server import EmbeddingServer

PAST_COUNT = 120


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    reading.forget_knowledge()
    embeddings.close_clients()


@pytest.fixture
def server(search_server: EmbeddingServer, settings: Settings) -> EmbeddingServer:  # noqa: F811
    settings.MODERATION_SUGGESTIONS = True
    search_server.sizes, search_server.spread = {"concepts": 64}, 0.5
    return search_server


@pytest.fixture
def past(lamp: Product, customer: User, moderator: User) -> list[Decision]:
    """Create decisions: questions with a lamp were taken down as spam, those with a pillow were kept."""
    spam = ReportReason.objects.get(code="spam")
    common = {"created_at": NOON - DAY, "updated_at": NOON - DAY}
    content = {"user": customer, "product": lamp, "shop": lamp.shop}
    texts = [f"Buy my {'lamp' if number % 2 else 'pillow'} number {number}" for number in range(PAST_COUNT)]
    questions = Question.objects.bulk_create(Question(question=text, **content, **common) for text in texts)
    cases = Case.objects.bulk_create(
        Case(
            model_type="Question",
            model_id=question.pk,
            author=customer,
            shop=lamp.shop,
            language="en",
            state=Case.State.ACCEPTED if number % 2 else Case.State.REJECTED,
            **common,
        )
        for number, question in enumerate(questions)
    )
    decisions = Decision.objects.bulk_create(
        Decision(
            case=case,
            author=customer,
            moderator=moderator,
            action=case.state,
            reason="We remove advertisements." if number % 2 else "",
            reports=[{"id": number + 1, "message": f"Look {number}", "reason_id": spam.pk}],
            reports_count=1,
            content={"question": texts[number]},
            created_at=NOON - DAY,
            undo_until=NOON - DAY,
        )
        for number, case in enumerate(cases)
    )
    for case, decision in zip(cases, decisions, strict=True):
        case.last_decision = decision
    Case.objects.bulk_update(cases, ["last_decision"])
    return decisions
