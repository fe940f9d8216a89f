"""Fill a shop with past decisions and with ten waiting items that say the same, and learn from the past."""

from datetime import timedelta

from django.utils import timezone

from commerce.catalog.models import Product
from commerce.moderation import services
from commerce.moderation.decisions import NO_MESSAGE, DecisionMessage
from commerce.moderation.models import DecisionTemplate, ReportReason, SuggestionModel
from commerce.moderation.tasks import update_suggestions
from commerce.reviews.services import ask_question
from shared.accounts.models import User
from shared.accounts.roles import Role

PAST_COUNT = 120


def fill(waiting: int) -> None:
    """Create past decisions about lamps and pillows, `waiting` items with an advertisement of a lamp, and learn."""
    admin = User.objects.filter(role=Role.SUPER_ADMIN).order_by("pk")[0]
    author = User.objects.filter(role=Role.CUSTOMER).order_by("pk")[0]
    reporter = User.objects.exclude(pk__in=[admin.pk, author.pk]).order_by("pk")[0]
    product = Product.objects.order_by("pk")[0]
    spam = ReportReason.objects.get(code="spam")
    DecisionTemplate.objects.update_or_create(
        name="Advertising", defaults={"text": "Advertising is not allowed.", "reason": spam}
    )
    long_ago = timezone.now() - timedelta(days=1)
    for number in range(PAST_COUNT):
        text = f"Buy my {'lamp' if number % 2 else 'pillow'}, offer {number}"
        question = ask_question(user=author, product_id=product.pk, question=text, now=long_ago)
        content = {"model_type": "Question", "model_id": question.pk, "now": long_ago}
        services.file_report(user=reporter, message="Advertising.", reason=spam, **content)
        action, message = (
            ("accepted", DecisionMessage(reason="Advertising.")) if number % 2 else ("rejected", NO_MESSAGE)
        )
        services.decide(action, moderator=admin, message=message, **content)
    for number in range(waiting):
        text = f"Buy the best lamp here{'!' * number}"
        question = ask_question(user=author, product_id=product.pk, question=text, now=timezone.now())
        services.file_report(
            user=reporter,
            model_type="Question",
            model_id=question.pk,
            message="Advertising.",
            reason=spam,
            now=timezone.now(),
        )
    SuggestionModel.objects.update(attempted_at=None, trained_at=None)  # the server may have learned from a part
    update_suggestions()
