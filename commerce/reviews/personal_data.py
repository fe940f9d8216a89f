"""Rules for exporting and erasing the personal data in reviews and questions.

Their texts are erased. The rating of a review stays.
"""

from datetime import datetime

from commerce.reviews.models import Question, Review
from commerce.reviews.services import delete_question
from shared.accounts.models import User
from shared.personal_data import PersonalDataRule, overwrite_rows


def _erase_questions(user: User, now: datetime) -> None:
    questions = Question.objects.filter(user=user)
    for question_id in questions.filter(deleted_at=None).values_list("pk", flat=True):
        delete_question(question_id=question_id, actor=user, now=now)
    questions.update(question="", answer="")


RULES = (
    overwrite_rows(Review, "user", comment=""),
    PersonalDataRule(Question, "user", _erase_questions),
)
