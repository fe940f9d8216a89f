"""Reviews, questions and abuse reports by the demo's customers, and decisions about them."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import cycle
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
from commerce.moderation.appeals import file_appeal
from commerce.moderation.models import (
    Case,
    ContentKind,
    Decision,
    DecisionTemplate,
    HoldingRule,
    Notice,
    ReportReason,
    Sanction,
    SecondLook,
)
from commerce.moderation.queue.second_looks import decide_second_look
from commerce.moderation.sanctions import appeal_sanction, impose_sanction
from commerce.moderation.services import decide, file_report
from commerce.moderation.undo import undo_decision
from commerce.orders.models import Order, OrderLine
from commerce.reviews.models import Question, Review
from commerce.reviews.services import answer_question, ask_question, write_review
from shared.accounts.models import User
from shared.api.errors import ApiError

Action = Decision.Action


@dataclass(frozen=True, kw_only=True)
class FeedbackCounts:
    """Numbers of order lines that are reviewed if they are complete, of questions, and of reported reviews."""

    reviews: int
    questions: int
    reports: int


FULL = FeedbackCounts(reviews=600, questions=120, reports=24)
SMALL = FeedbackCounts(reviews=75, questions=20, reports=12)

# Of the first decisions, whether a colleague agrees; one waits.
SECOND_LOOKS = (True, True, False, True, None)
# Kind, days, and the reason for the author.
SANCTIONS = (
    (Sanction.Kind.WARNING, None, "Please write about the product and not about other customers."),
    (Sanction.Kind.LIMIT, 14, "You wrote the same text about many products."),
    (Sanction.Kind.SUSPENSION, 7, "You advertised another shop again."),
    (Sanction.Kind.BAN, None, "You published the addresses of other people."),
)
# Name, code of the reason, language, text.
TEMPLATES = (
    (
        "Advertising",
        "spam",
        "en",
        "Your text about {product} advertises something else. You may appeal for {appeal_days} days.",
    ),
    (
        "Werbung",
        "spam",
        "de",
        "Ihr Text zu {product} wirbt für etwas anderes. Sie können {appeal_days} Tage lang Einspruch einlegen.",
    ),
    (
        "Publicidad",
        "spam",
        "es",
        "Su texto sobre {product} anuncia otra cosa. Puede presentar un recurso durante {appeal_days} días.",
    ),
    (
        "Personal data",
        "personal_data",
        "en",
        "Your text about {product} names a person. Write it again without the name.",
    ),
    ("Other product", "off_topic", "en", "Your text is not about {product} of {shop}."),
)
# Name, kind, entries, and whether the rule is on.
HOLDING_RULES = (
    ("Links", HoldingRule.Kind.LINKS, "", True),
    ("Other channels", HoldingRule.Kind.WORDS, "whatsapp\ntelegram", True),
    ("Repeated texts", HoldingRule.Kind.REPETITION, "", False),
)
HELD_QUESTION = "Is it cheaper at deals . com? Write to me on W h a t s A p p."
STARS = (5, 5, 5, 5, 4, 4, 4, 3, 3, 2, 1)
COMMENTS = {
    5: POSITIVE_COMMENTS,
    4: POSITIVE_COMMENTS,
    3: NEUTRAL_COMMENTS,
    2: NEGATIVE_COMMENTS,
    1: NEGATIVE_COMMENTS,
}


def seed_feedback(*, seed: int, counts: FeedbackCounts = FULL, now: datetime) -> None:
    """Create reviews, questions and reports through the services.

    Does nothing if there are reviews. The full demo adds its own to those of the small one.
    """
    if Review.objects.count() > (0 if counts == SMALL else SMALL.reviews):
        return
    random = Random(f"{seed} voices")  # noqa: S311 nothing here is a secret
    with transaction.atomic():
        _write_reviews(random, counts.reviews, now)
        _ask_questions(random, counts.questions, now)
        _file_reports(random, counts.reports, now)


@transaction.atomic
def seed_decisions(*, moderator: User, colleague: User, now: datetime) -> None:
    """Decide about half of the cases as a moderator would, unless there are decisions. The others wait.

    The colleague takes second looks at some of the decisions.
    """
    if Decision.objects.exists():
        return
    cases = list(Case.objects.filter(state=Case.State.OPEN).order_by("newest_at", "id"))
    for action, case in zip(cycle((Action.ACCEPTED, Action.ACCEPTED, Action.REJECTED)), cases[: len(cases) // 2]):
        _decide(action, case, moderator, now)
    if waiting := cases[len(cases) // 2 :]:
        decision = _decide(Action.ACCEPTED, waiting[0], moderator, now)
        undo_decision(decision_id=decision.pk, moderator=moderator, now=decision.created_at + timedelta(minutes=1))
        _decide(Action.HIDDEN, waiting[-1], moderator, now)
    _take_second_looks(colleague, now)
    _appeal(now)
    _sanction_authors(moderator, now)
    _create_templates()
    _hold_a_question(now)


def _take_second_looks(colleague: User, now: datetime) -> None:
    verdicts = (Action.ACCEPTED, Action.REJECTED)
    decisions = Decision.objects.filter(action__in=verdicts, undone_at=None, second_look=None).exclude(author=colleague)
    for decision, agrees in zip(decisions.order_by("id"), SECOND_LOOKS, strict=False):
        look = SecondLook.objects.create(decision=decision, created_at=decision.created_at)
        if agrees is not None:
            verdict = decision.action if agrees else next(other for other in verdicts if other != decision.action)
            decide_second_look(look_id=look.pk, verdict=verdict, moderator=colleague, now=now)


def _appeal(now: datetime) -> None:
    """Let two authors appeal against their removals."""
    removals = Notice.objects.filter(kind=Notice.Kind.CONTENT_REMOVED, due_at__lte=now, appeal_until__gt=now)
    texts = ("I bought it there, and it broke in a week.", "Das ist meine ehrliche Meinung.")
    for notice, text in zip(removals.select_related("user").order_by("id")[:2], texts, strict=False):
        file_appeal(author=notice.user, notice_id=notice.pk, message=text, now=now)


def _sanction_authors(moderator: User, now: datetime) -> None:
    """Impose one sanction of each kind on authors of removed content, and let one of them appeal."""
    authors = Decision.objects.filter(action=Action.ACCEPTED, undone_at=None).exclude(author=moderator)
    author_ids = list(dict.fromkeys(authors.order_by("id").values_list("author_id", flat=True)))
    for author_id, (kind, days, reason) in zip(author_ids, SANCTIONS, strict=False):
        sanction = impose_sanction(
            user_id=author_id, kind=kind, days=days, reason=reason, moderator=moderator, now=now
        )  # fmt: skip
        if kind == Sanction.Kind.SUSPENSION:
            appeal_sanction(sanction_id=sanction.pk, user=sanction.user, message="It was one review.", now=now)


def _create_templates() -> None:
    for name, code, language, text in TEMPLATES:
        reason = ReportReason.objects.filter(code=code).first()
        DecisionTemplate.objects.get_or_create(name=name, language=language, defaults={"reason": reason, "text": text})


def _hold_a_question(now: datetime) -> None:
    """Create the holding rules, and a question that one of them holds, by somebody who may write."""
    for name, kind, entries, is_active in HOLDING_RULES:
        HoldingRule.objects.get_or_create(
            name=name, defaults={"kind": kind, "entries": entries, "is_active": is_active}
        )
    asked = Question.objects.visible().exclude(user__in=Sanction.objects.values("user")).order_by("id").first()
    if asked is not None:
        with suppress(ApiError):
            ask_question(user=asked.user, product_id=asked.product_id, question=HELD_QUESTION, now=now)


def _decide(action: str, case: Case, moderator: User, now: datetime) -> Decision:
    decided_at = min(now, (case.newest_at or now) + timedelta(minutes=40))
    return decide(action, model_type=case.model_type, model_id=case.model_id, moderator=moderator, now=decided_at)


def _write_reviews(random: Random, count: int, now: datetime) -> None:
    for line in _completed_lines(random, count):
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


def _completed_lines(random: Random, count: int) -> list[OrderLine]:
    """Return those of `count` random lines whose orders are complete."""
    ends = OrderLine.objects.aggregate(first=Min("id"), last=Max("id"))
    if ends["first"] is None:
        return []
    ids = range(ends["first"], ends["last"] + 1)
    sampled = random.sample(ids, min(len(ids), count))
    lines = OrderLine.objects.filter(id__in=sampled).select_related("order__customer").order_by("id")
    # Filtering by status in the query would make SQLite start from all complete orders.
    return [line for line in lines if line.order.order_status == Order.Status.COMPLETE]


def _ask_questions(random: Random, count: int, now: datetime) -> None:
    products = list(Product.objects.public().select_related("shop__owner").order_by("id"))
    customers = list(User.objects.filter(reviews__isnull=False).distinct().order_by("id"))
    if not products or not customers:
        return
    for _ in range(count):
        product, asked_at = random.choice(products), now - timedelta(days=random.random() * 300)
        text, answer = random.choice(QUESTIONS_AND_ANSWERS)
        question = ask_question(user=random.choice(customers), product_id=product.pk, question=text, now=asked_at)
        if random.random() < 0.7:
            answered_at = min(now, asked_at + timedelta(hours=random.randint(1, 60)))
            answer_question(question_id=question.pk, answer=answer, actor=product.shop.owner, now=answered_at)


def _file_reports(random: Random, count: int, now: datetime) -> None:
    """Report the reviews with the lowest ratings and a few questions."""
    worst = list(Review.objects.visible().order_by("rating", "id").values_list("pk", "user_id")[:count])
    questions = list(Question.objects.visible().order_by("id").values_list("pk", "user_id")[: count // 6])
    reporters = list(User.objects.filter(reviews__isnull=False).distinct().order_by("id"))
    reasons = {reason.code: reason for reason in ReportReason.objects.all()}
    messages = random.sample(REPORT_MESSAGES, len(REPORT_MESSAGES))
    filed = 0
    kinds = [(ContentKind.REVIEW, one) for one in worst] + [(ContentKind.QUESTION, one) for one in questions]
    for kind, (content_id, author_id) in kinds:
        for reporter in random.sample(reporters, min(len(reporters), random.randint(1, 3))):
            if reporter.pk != author_id:
                reported_at = now - timedelta(hours=random.random() * 200)
                message, code = messages[filed % len(messages)]  # so that every reason is there
                with suppress(ApiError):  # who has reported this before
                    file_report(
                        user=reporter,
                        model_type=kind,
                        model_id=content_id,
                        message=message,
                        reason=reasons.get(code),
                        now=reported_at,
                    )
                    filed += 1
