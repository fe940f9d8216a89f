"""What moderation keeps about a person. The log of decisions is what moderators answer for: it keeps the texts that
were decided about, as the audit log does, and names people by their ids."""

from commerce.moderation.models import AbuseReport, Appeal, Case, Decision, Notice, Reporter
from shared.personal_data import delete_rows, overwrite_rows, retain_rows

LOG = "it is the log of what was decided, and names them by an id"
OF_MODERATORS = ("note", "before", "reports", "moderator", "undone_by")

RULES = (
    delete_rows(Notice, "user"),
    overwrite_rows(Appeal, "author", message=""),
    overwrite_rows(AbuseReport, "user", message=""),
    retain_rows(Reporter, "user", reason="two counts"),
    retain_rows(Case, "author", reason=LOG, excluded_fields=("claimed_by", "claimed_until")),
    retain_rows(Case, "claimed_by", reason=LOG),
    retain_rows(Decision, "author", reason=LOG, excluded_fields=OF_MODERATORS),
    retain_rows(Decision, "moderator", reason=LOG),
    retain_rows(Decision, "undone_by", reason=LOG),
)
