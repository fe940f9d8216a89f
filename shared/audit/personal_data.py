"""What the audit log keeps about a person: who did what, by an id. Nothing of it is ever changed."""

from shared.audit.models import AuditEntry
from shared.personal_data import retain_rows

RULES = (retain_rows(AuditEntry, "actor", reason="the log is append-only, and names people by their ids"),)
