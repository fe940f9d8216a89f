"""Kinds of content that users can report, with the model of each."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from commerce.moderation.models import AbuseReport, Case, ContentKind
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError

MAX_REPORTS_PER_CONTENT = 20  # in a record of the content; all are in the list of reports

Reportable = Review | Question
CONTENT_MODELS: Mapping[str, type[Review] | type[Question]] = {
    ContentKind.REVIEW: Review,
    ContentKind.QUESTION: Question,
}
# Clients of the former back end send the name of its class.
LEGACY_PREFIX = "Marvel\\Database\\Models\\"


class ContentNotFound(ApiError):
    """404: the content does not exist, or its kind cannot be reported."""

    def __init__(self, message: str = "There is no review or question with this model_type and model_id.") -> None:
        super().__init__(404, message)


def parse_kind(model_type: str) -> ContentKind:
    """Return the kind of a `model_type` in any case, with or without LEGACY_PREFIX.

    Raises ContentNotFound, which names the kinds, for any other.
    """
    name = model_type.lower().removeprefix(LEGACY_PREFIX.lower())
    kind = next((kind for kind in ContentKind if kind.lower() == name), None)
    if kind is None:
        raise ContentNotFound(f"There is no such kind of content. Send {' or '.join(ContentKind)} as model_type.")
    return kind


def get_content(case: Case) -> Reportable:
    """Return the content of a case, deleted or not."""
    content: Reportable = CONTENT_MODELS[case.model_type]._default_manager.get(pk=case.model_id)
    return content


def lock_content(kind: ContentKind, model_id: int, *, deleted: bool = False) -> Reportable:
    """Return content after locking it, before a decision or a report touches anything else.

    Concurrent callers thus run one after the other. Raises ContentNotFound, and for deleted content unless `deleted`.
    """
    rows = CONTENT_MODELS[kind]._default_manager.select_for_update(of=("self",)).select_related("product", "shop")
    found = rows.filter(pk=model_id) if deleted else rows.filter(pk=model_id, deleted_at=None)
    content = found.first()
    if content is None:
        raise ContentNotFound
    return content


def load_reports(*, contents: Sequence[Any], user: User | None) -> None:
    """Set `abusive_reports` on each review or question: its newest reports, or None for users who may not read any."""
    if user is None or user.role not in (Role.SUPER_ADMIN, Role.MODERATOR):
        for content in contents:
            content.abusive_reports = None
        return
    model_type = type(contents[0]).__name__
    newest = Window(RowNumber(), partition_by="model_id", order_by=F("id").desc())
    reports = AbuseReport.objects.filter(model_type=model_type, model_id__in=[content.pk for content in contents])
    by_content = defaultdict(list)
    for report in reports.select_related("user").alias(place=newest).filter(place__lte=MAX_REPORTS_PER_CONTENT):
        by_content[report.model_id].append(report)
    for content in contents:
        content.abusive_reports = by_content[content.pk]
