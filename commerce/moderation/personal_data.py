"""Personal data rules of moderation.

Decisions keep the texts that were decided about, like the audit log, and refer to people by their ids.
"""

from datetime import datetime

from commerce.moderation.models import (
    AbuseReport,
    Appeal,
    Case,
    CaseVector,
    Decision,
    Notice,
    Reporter,
    Sanction,
    SecondLook,
)
from shared.accounts.models import User
from shared.personal_data import PersonalDataRule, delete_rows, overwrite_rows, retain_rows

LOG = "it is the log of decisions, and refers to people by an id"
MODERATOR_FIELDS = ("note", "before", "reports", "moderator", "undone_by")
MAX_DELETED = 500  # vectors a query
SANCTIONED_FIELDS = ("user", "reason", "appeal_message")


def delete_vectors(user: User, now: datetime) -> None:
    """Delete the vectors of what the person wrote, reports included. Those without their words are made anew."""
    reported = set(AbuseReport.objects.filter(user=user).values_list("model_type", "model_id"))
    fields = ("pk", "case__author_id", "case__model_type", "case__model_id", "case__last_decision__reports")
    found = [
        pk
        for pk, author_id, kind, content_id, reports in CaseVector.objects.values_list(*fields)
        if author_id == user.pk
        or (kind, content_id) in reported
        or any(report.get("user_id") == user.pk for report in reports or ())
    ]
    for start in range(0, len(found), MAX_DELETED):
        CaseVector.objects.filter(pk__in=found[start : start + MAX_DELETED]).delete()


RULES = (
    delete_rows(Notice, "user"),
    overwrite_rows(Sanction, "user", excluded_fields=("note", "moderator", "lifted_by"), appeal_message=""),
    retain_rows(Sanction, "moderator", reason=LOG, excluded_fields=SANCTIONED_FIELDS),
    retain_rows(Sanction, "lifted_by", reason=LOG, excluded_fields=SANCTIONED_FIELDS),
    overwrite_rows(Appeal, "author", message=""),
    overwrite_rows(AbuseReport, "user", message=""),
    retain_rows(Reporter, "user", reason="two counts"),
    PersonalDataRule(Case, "author", delete_vectors, excluded_fields=("claimed_by", "claimed_until")),
    retain_rows(Case, "claimed_by", reason=LOG),
    retain_rows(Decision, "author", reason=LOG, excluded_fields=MODERATOR_FIELDS),
    retain_rows(Decision, "moderator", reason=LOG),
    retain_rows(Decision, "undone_by", reason=LOG),
    retain_rows(SecondLook, "moderator", reason=LOG),
)
