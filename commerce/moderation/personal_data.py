"""What moderation keeps about a person. The log of decisions is what moderators answer for: it keeps the texts that
were decided about, as the audit log does, and names people by their ids."""

from commerce.moderation.models import AbuseReport, Appeal, Case, Decision, Notice, Reporter
from shared.accounts.person_rules import blanked, deleted, kept

LOG = "it is the log of what was decided, and names them by an id"
OF_MODERATORS = ("note", "before", "reports", "moderator", "undone_by")

RULES = (
    deleted(Notice, "user"),
    blanked(Appeal, "author", message=""),
    blanked(AbuseReport, "user", message=""),
    kept(Reporter, "user", why="two counts"),
    kept(Case, "author", why=LOG, hidden=("claimed_by", "claimed_until")),
    kept(Case, "claimed_by", why=LOG),
    kept(Decision, "author", why=LOG, hidden=OF_MODERATORS),
    kept(Decision, "moderator", why=LOG),
    kept(Decision, "undone_by", why=LOG),
)
