"""What reviews and questions keep about a person: their words. A review's stars stay, and are nobody's."""

from datetime import datetime

from commerce.reviews.models import Question, Review
from commerce.reviews.services import delete_question
from shared.accounts.models import User
from shared.accounts.person_rules import Rule, blanked


def _erase_questions(user: User, now: datetime) -> None:
    theirs = Question.objects.filter(user=user)
    for question_id in theirs.filter(deleted_at=None).values_list("pk", flat=True):
        delete_question(question_id=question_id, actor=user, now=now)
    theirs.update(question="", answer="")


RULES = (
    blanked(Review, "user", comment=""),
    Rule(Question, "user", _erase_questions),
)
