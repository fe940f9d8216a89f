"""Personal data rules of the audit log, which keeps the ids of actors unchanged."""

from shared.audit.models import AuditEntry
from shared.personal_data import retain_rows

RULES = (retain_rows(AuditEntry, "actor", reason="the log is append-only and refers to people by id"),)
