"""The closed list of what can be reported: each kind, and the model that it is kept in."""

from collections.abc import Mapping

from commerce.moderation.models import AbuseReport
from commerce.reviews.models import Question, Review

TARGETS: Mapping[str, type[Review] | type[Question]] = {
    AbuseReport.Kind.REVIEW: Review,
    AbuseReport.Kind.QUESTION: Question,
}
