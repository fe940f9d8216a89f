"""What the audit log keeps about a person: who did what, by an id. Nothing of it is ever changed."""

from shared.accounts.person_rules import kept
from shared.audit.models import AuditEntry

RULES = (kept(AuditEntry, "actor", why="the log is append-only, and names people by their ids"),)
