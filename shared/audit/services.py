"""Writes to the audit log."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser

from shared.audit.models import AuditEntry
from shared.observability.request_id import current_request_id


def record_audit_entry(
    *,
    action: str,
    actor: AbstractBaseUser | None,
    target_type: str,
    target_id: int,
    details: Mapping[str, Any],
    now: datetime,
) -> AuditEntry:
    """Add an entry in the caller's transaction, so that it exists exactly when the action does.

    `actor` is None for an automatic action. `details` is JSON and includes the target's state before the action.
    """
    return AuditEntry.objects.create(
        at=now,
        actor_id=actor.pk if actor else None,
        action=action,
        target_type=target_type,
        target_id=target_id,
        details=dict(details),
        request_id=current_request_id() or "",
    )
