"""Personal data rules of moderation.

Decisions keep the texts that were decided about, like the audit log, and refer to people by their ids.
"""

from commerce.moderation.models import AbuseReport, Appeal, Case, Decision, Notice, Reporter, Sanction, SecondLook
from shared.personal_data import delete_rows, overwrite_rows, retain_rows

LOG = "it is the log of decisions, and refers to people by an id"
MODERATOR_FIELDS = ("note", "before", "reports", "moderator", "undone_by")
SANCTIONED_FIELDS = ("user", "reason", "appeal_message")

RULES = (
    delete_rows(Notice, "user"),
    overwrite_rows(Sanction, "user", excluded_fields=("note", "moderator", "lifted_by"), appeal_message=""),
    retain_rows(Sanction, "moderator", reason=LOG, excluded_fields=SANCTIONED_FIELDS),
    retain_rows(Sanction, "lifted_by", reason=LOG, excluded_fields=SANCTIONED_FIELDS),
    overwrite_rows(Appeal, "author", message=""),
    overwrite_rows(AbuseReport, "user", message=""),
    retain_rows(Reporter, "user", reason="two counts"),
    retain_rows(Case, "author", reason=LOG, excluded_fields=("claimed_by", "claimed_until")),
    retain_rows(Case, "claimed_by", reason=LOG),
    retain_rows(Decision, "author", reason=LOG, excluded_fields=MODERATOR_FIELDS),
    retain_rows(Decision, "moderator", reason=LOG),
    retain_rows(Decision, "undone_by", reason=LOG),
    retain_rows(SecondLook, "moderator", reason=LOG),
)
