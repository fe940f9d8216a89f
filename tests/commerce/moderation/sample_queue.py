"""Sample data of every kind for the queue, on the demo's or any other products."""

from datetime import UTC, datetime, timedelta
from random import Random

from django.db import transaction

from commerce.catalog.models import Product
from commerce.moderation import services
from commerce.moderation.appeals import file_appeal
from commerce.moderation.decisions import DecisionMessage
from commerce.moderation.models import Case, Decision, Reporter
from commerce.reviews.models import Question, Review
from commerce.reviews.services import ask_question, write_review
from shared.accounts.models import User
from shared.accounts.roles import Role

TEXTS = [
    "Cheaper at the market, write to me: +00 555 0100. I sell the same one for half.",
    "The seller is a thief and everybody in that street knows it.",
    "It broke on the second day. The handle came off in my hand, and nobody answers my letters. Keep away.",
    "Great product!!! Visit my page for a free one <script>alert('hello')</script> & more",
    "ممتاز جدا، أنصح به للجميع. اتصل بي لأقل الأسعار",
    "Nice.",
    "A long story. " * 40,
    "",
]
REASONS = [
    "Spam.",
    "Insults.",
    "It is an advertisement for another shop, with a phone number.",
    "Not about the product.",
]


def make_person(name: str, *, role: Role = Role.CUSTOMER, age: timedelta = timedelta(days=200)) -> User:
    now = datetime.now(UTC)
    email = f"{name.lower().replace(' ', '.')}@people.example"
    return User.objects.get_or_create(email=email, defaults={"name": name, "role": role, "created_at": now - age})[0]


@transaction.atomic
def fill_queue(count: int, *, seed: int = 7) -> None:
    """Create `count` reported reviews and questions, some of them hidden, brigaded or appealed."""
    random, now = Random(seed), datetime.now(UTC)
    products = list(Product.objects.public().order_by("pk")[:20])
    known = [make_person(f"Reporter {number}") for number in range(12)]
    new = [make_person(f"Newcomer {number}", age=timedelta(hours=3)) for number in range(6)]
    for number, user in enumerate(known):
        Reporter.objects.get_or_create(user=user, defaults={"agreed": number, "disagreed": number % 4})
    for number in range(count):
        author, product = make_person(f"Author {number}"), products[number % len(products)]
        at = now - timedelta(minutes=random.randint(5, 15_000))
        content: Review | Question
        text = TEXTS[number % len(TEXTS)]
        if number % 5 == 4:
            content = ask_question(user=author, product_id=product.pk, question=text or "Hello?", now=at)
        else:
            content = write_review(
                user=author, product_id=product.pk, rating=number % 5 + 1, comment=text, now=at
            )  # fmt: skip
        who = new if number % 17 == 8 else random.sample(known, random.choice([1, 1, 1, 2, 3, 7]))
        for user in who:
            _report(content, user, random.choice(REASONS), at + timedelta(minutes=random.randint(1, 4)))


def _report(content: Review | Question, user: User, message: str, at: datetime) -> None:
    kind = type(content).__name__
    model = type(content)
    if model._default_manager.get(pk=content.pk).hidden_at is None:
        services.file_report(user=user, model_type=kind, model_id=content.pk, message=message, now=at)


def decide_some(count: int, moderator: User) -> None:
    """Decide about `count` cases of the queue over the last days."""
    now = datetime.now(UTC)
    for number, case in enumerate(Case.objects.waiting().order_by("pk")[:count]):
        at = now - timedelta(days=number % 12, hours=number % 5)
        action = "rejected" if number % 3 == 0 else "accepted"
        words = DecisionMessage(note="Seen before.", reason="It is an advertisement.")
        services.decide(
            action, model_type=case.model_type, model_id=case.model_id, moderator=moderator, message=words, now=at
        )


def appeal_some(count: int) -> None:
    """Appeal against `count` removals that can no longer be undone."""
    now = datetime.now(UTC)
    removed = Decision.objects.filter(action="accepted", undo_until__lt=now).select_related("case__author")[:count]
    for decision in removed:
        notice = decision.notices.get(kind="content_removed")
        file_appeal(author=decision.author, notice_id=notice.pk, message="I only said what happened to me.", now=now)
