"""How another app shows a review or a question: as everybody sees it."""

from typing import Any

from commerce.reviews.models import Question, Review
from commerce.reviews.serializers import QuestionSerializer, ReviewSerializer

CONTENT_RECORDS = {Review: ReviewSerializer, Question: QuestionSerializer}


def content_record(content: Review | Question) -> dict[str, Any]:
    """The record of either, with none of its relations."""
    record: dict[str, Any] = CONTENT_RECORDS[type(content)](content).data
    return record
