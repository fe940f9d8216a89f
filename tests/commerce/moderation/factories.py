"""Factories of reporters, reports and decisions."""

from datetime import UTC, datetime, timedelta
from typing import Any

from commerce.moderation import services
from commerce.moderation.decisions import DecisionMessage
from commerce.moderation.models import AbuseReport, Case, Decision, Reporter
from commerce.moderation.reportable_content import Reportable
from commerce.moderation.undo import undo_decision
from commerce.reviews.models import Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import make_user

NOON = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def reporter(name: str, *, age: timedelta = 100 * DAY, agreed: int = 0, disagreed: int = 0) -> User:
    """Create a customer with an account of this age at NOON and this record as a reporter."""
    user = make_user(Role.CUSTOMER, name)
    user.created_at = NOON - age
    user.save()
    if agreed or disagreed:
        Reporter.objects.create(user=user, agreed=agreed, disagreed=disagreed)
    return user


def kind_of(content: Reportable) -> str:
    return "Review" if isinstance(content, Review) else "Question"


def report(content: Reportable, user: User, *, at: datetime = NOON, message: str = "Spam.") -> AbuseReport:
    return services.file_report(
        user=user, model_type=kind_of(content), model_id=content.pk, message=message, now=at
    )  # fmt: skip


def decide(action: str, content: Reportable, moderator: User, *, at: datetime = NOON, **words: Any) -> Decision:
    named: dict[str, Any] = {"model_type": kind_of(content), "model_id": content.pk}
    return services.decide(action, **named, moderator=moderator, message=DecisionMessage(**words), now=at)


def undo(decision: Decision, moderator: User, *, at: datetime = NOON) -> Decision:
    return undo_decision(decision_id=decision.pk, moderator=moderator, now=at)


def case_of(content: Reportable) -> Case:
    return Case.objects.get(model_type=kind_of(content), model_id=content.pk)


def rows(*models: Any, without: tuple[str, ...] = ()) -> list[list[dict[str, Any]]]:
    """Return all rows of these models, without the named columns."""
    read = [list(model.objects.order_by("pk").values()) for model in models]
    return [[{name: row[name] for name in row if name not in without} for row in table] for table in read]
