"""Append-only audit log of decisions: actor, time, action and target. `services.record_audit_entry` writes it."""
