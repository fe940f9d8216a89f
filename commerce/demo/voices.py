"""What the demo's customers say: reviews of what they bought, questions, and reports of what should not be there."""

from contextlib import suppress
from datetime import datetime, timedelta
from random import Random

from django.db import transaction
from django.db.models import Max, Min

from commerce.catalog.models import Product
from commerce.demo.goods import BLAME, COMPLAINTS, MIXED, PRAISE, QUESTIONS
from commerce.moderation.models import AbuseReport
from commerce.moderation.services import file_report
from commerce.orders.models import Order, OrderLine
from commerce.reviews.models import Question, Review
from commerce.reviews.services import answer_question, ask_question, write_review
from shared.accounts.models import User
from shared.api.errors import ApiError

REVIEWS, QUESTIONS_ASKED, REPORTS = 600, 120, 24
STARS = (5, 5, 5, 5, 4, 4, 4, 3, 3, 2, 1)
COMMENTS = {5: PRAISE, 4: PRAISE, 3: MIXED, 2: BLAME, 1: BLAME}


def seed_voices(*, seed: int, now: datetime) -> None:
    """Reviews, questions and reports, through the services that keep their figures; nothing where there are reviews."""
    if Review.objects.exists():
        return
    random = Random(f"{seed} voices")  # noqa: S311 nothing here is a secret
    with transaction.atomic():
        _write_reviews(random, now)
        _ask_questions(random, now)
        _file_reports(random, now)


def _write_reviews(random: Random, now: datetime) -> None:
    for line in _lines_bought(random):
        stars = random.choice(STARS)
        age = timedelta(days=random.randint(3, 20), seconds=random.randint(0, 86_399))
        with suppress(ApiError):  # of two lines of one product in one order, one is reviewed
            write_review(
                user=line.order.customer,
                product_id=line.product_id,
                rating=stars,
                comment=random.choice(COMMENTS[stars]),
                order_id=line.order_id,
                now=min(now, line.order.created_at + age),
            )


def _lines_bought(random: Random) -> list[OrderLine]:
    """Some lines of complete orders, from any time."""
    ends = OrderLine.objects.aggregate(first=Min("id"), last=Max("id"))
    if ends["first"] is None:
        return []
    ids = range(ends["first"], ends["last"] + 1)
    drawn = random.sample(ids, min(len(ids), REVIEWS))
    lines = OrderLine.objects.filter(id__in=drawn).select_related("order__customer").order_by("id")
    # Asked for the complete ones, SQLite would begin with all complete orders of the shop.
    return [line for line in lines if line.order.order_status == Order.Status.COMPLETE]


def _ask_questions(random: Random, now: datetime) -> None:
    products = list(Product.objects.public().select_related("shop__owner").order_by("id"))
    askers = list(User.objects.filter(reviews__isnull=False).distinct().order_by("id"))
    if not products or not askers:
        return
    for _ in range(QUESTIONS_ASKED):
        product, asked_at = random.choice(products), now - timedelta(days=random.random() * 300)
        text, answer = random.choice(QUESTIONS)
        question = ask_question(user=random.choice(askers), product_id=product.pk, question=text, now=asked_at)
        if random.random() < 0.7:
            answered_at = min(now, asked_at + timedelta(hours=random.randint(1, 60)))
            answer_question(question_id=question.pk, answer=answer, actor=product.shop.owner, now=answered_at)


def _file_reports(random: Random, now: datetime) -> None:
    """Mostly of the worst reviews, now and then of a question."""
    worst = list(Review.objects.visible().order_by("rating", "id").values_list("pk", "user_id")[:REPORTS])
    asked = list(Question.objects.visible().order_by("id").values_list("pk", "user_id")[: REPORTS // 6])
    reporters = list(User.objects.filter(reviews__isnull=False).distinct().order_by("id"))
    kinds = [(AbuseReport.Kind.REVIEW, one) for one in worst] + [(AbuseReport.Kind.QUESTION, one) for one in asked]
    for kind, (content_id, author_id) in kinds:
        for reporter in random.sample(reporters, min(len(reporters), random.randint(1, 3))):
            if reporter.pk != author_id:
                reported_at = now - timedelta(hours=random.random() * 200)
                message = random.choice(COMPLAINTS)
                file_report(user=reporter, model_type=kind, model_id=content_id, message=message, now=reported_at)
