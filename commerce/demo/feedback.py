"""Reviews, questions and abuse reports by the demo's customers."""

from contextlib import suppress
from datetime import datetime, timedelta
from random import Random

from django.db import transaction
from django.db.models import Max, Min

from commerce.catalog.models import Product
from commerce.demo.full_data import (
    NEGATIVE_COMMENTS,
    NEUTRAL_COMMENTS,
    POSITIVE_COMMENTS,
    QUESTIONS_AND_ANSWERS,
    REPORT_MESSAGES,
)
from commerce.moderation.models import ContentKind
from commerce.moderation.services import file_report
from commerce.orders.models import Order, OrderLine
from commerce.reviews.models import Question, Review
from commerce.reviews.services import answer_question, ask_question, write_review
from shared.accounts.models import User
from shared.api.errors import ApiError

REVIEW_COUNT, QUESTION_COUNT, REPORT_COUNT = 600, 120, 24
STARS = (5, 5, 5, 5, 4, 4, 4, 3, 3, 2, 1)
COMMENTS = {
    5: POSITIVE_COMMENTS,
    4: POSITIVE_COMMENTS,
    3: NEUTRAL_COMMENTS,
    2: NEGATIVE_COMMENTS,
    1: NEGATIVE_COMMENTS,
}


def seed_feedback(*, seed: int, now: datetime) -> None:
    """Create reviews, questions and reports through the services. Does nothing if there are reviews."""
    if Review.objects.exists():
        return
    random = Random(f"{seed} voices")  # noqa: S311 nothing here is a secret
    with transaction.atomic():
        _write_reviews(random, now)
        _ask_questions(random, now)
        _file_reports(random, now)


def _write_reviews(random: Random, now: datetime) -> None:
    for line in _completed_lines(random):
        stars = random.choice(STARS)
        age = timedelta(days=random.randint(3, 20), seconds=random.randint(0, 86_399))
        with suppress(ApiError):  # two lines of one product in an order get one review
            write_review(
                user=line.order.customer,
                product_id=line.product_id,
                rating=stars,
                comment=random.choice(COMMENTS[stars]),
                order_id=line.order_id,
                now=min(now, line.order.created_at + age),
            )


def _completed_lines(random: Random) -> list[OrderLine]:
    """Return random lines of complete orders."""
    ends = OrderLine.objects.aggregate(first=Min("id"), last=Max("id"))
    if ends["first"] is None:
        return []
    ids = range(ends["first"], ends["last"] + 1)
    sampled = random.sample(ids, min(len(ids), REVIEW_COUNT))
    lines = OrderLine.objects.filter(id__in=sampled).select_related("order__customer").order_by("id")
    # Filtering by status in the query would make SQLite start from all complete orders.
    return [line for line in lines if line.order.order_status == Order.Status.COMPLETE]


def _ask_questions(random: Random, now: datetime) -> None:
    products = list(Product.objects.public().select_related("shop__owner").order_by("id"))
    customers = list(User.objects.filter(reviews__isnull=False).distinct().order_by("id"))
    if not products or not customers:
        return
    for _ in range(QUESTION_COUNT):
        product, asked_at = random.choice(products), now - timedelta(days=random.random() * 300)
        text, answer = random.choice(QUESTIONS_AND_ANSWERS)
        question = ask_question(user=random.choice(customers), product_id=product.pk, question=text, now=asked_at)
        if random.random() < 0.7:
            answered_at = min(now, asked_at + timedelta(hours=random.randint(1, 60)))
            answer_question(question_id=question.pk, answer=answer, actor=product.shop.owner, now=answered_at)


def _file_reports(random: Random, now: datetime) -> None:
    """Report the reviews with the lowest ratings and a few questions."""
    worst = list(Review.objects.visible().order_by("rating", "id").values_list("pk", "user_id")[:REPORT_COUNT])
    questions = list(Question.objects.visible().order_by("id").values_list("pk", "user_id")[: REPORT_COUNT // 6])
    reporters = list(User.objects.filter(reviews__isnull=False).distinct().order_by("id"))
    kinds = [(ContentKind.REVIEW, one) for one in worst] + [(ContentKind.QUESTION, one) for one in questions]
    for kind, (content_id, author_id) in kinds:
        for reporter in random.sample(reporters, min(len(reporters), random.randint(1, 3))):
            if reporter.pk != author_id:
                reported_at = now - timedelta(hours=random.random() * 200)
                message = random.choice(REPORT_MESSAGES)
                file_report(user=reporter, model_type=kind, model_id=content_id, message=message, now=reported_at)
