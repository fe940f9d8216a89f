"""Writes to the members of pools. Every change is in the audit log, without keys."""

import re
from datetime import datetime
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import transaction

from inference.pools import cache
from inference.pools.models import PoolMember
from inference.remote.configuration import API_KEY_PATTERN, origin_of
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.audit.services import record_audit_entry
from shared.encryption import encrypt

KEY_OF_ANOTHER_SERVER = (
    "The stored API key was given for another server than this URL names. Enter the key of this server, or remove the "
    "stored one."
)

State = PoolMember.State


def find_member(*, model_id: str, name: str) -> PoolMember:
    """Return a member. Raise ApiError 404, which names those that there are."""
    members = PoolMember.objects.filter(model_id=model_id)
    if member := members.filter(name=name).first():
        return member
    names = ", ".join(members.values_list("name", flat=True))
    others = (
        f"The pool of {model_id} has: {names}." if names else f"{model_id} has no pool: `stoa pools list` lists them."
    )
    raise ApiError(404, f"There is no member {name} of {model_id}. {others}")


def is_key_of_another_server(member: PoolMember, base_url: str) -> bool:
    """Return whether with this URL the stored key of a member would be sent to another scheme, host or port."""
    stored = PoolMember.objects.filter(pk=member.pk).exclude(api_key="").first()
    return stored is not None and origin_of(stored.base_url) != origin_of(base_url)


@transaction.atomic
def save_member(*, member: PoolMember, api_key: str | None, actor: User | None, now: datetime) -> PoolMember:
    """Create or change a member. Raise ApiError 400, which names the field.

    api_key: None keeps the stored one, which is possible for the same server only.
    """
    action = "pool_member.added" if member.pk is None else "pool_member.changed"
    if not re.match(API_KEY_PATTERN, api_key or ""):
        message = "`api_key` is invalid. Use printable ASCII characters without spaces."
        raise ApiError(400, message, details={"field": "api_key"})
    if api_key is not None:
        member.api_key = api_key and encrypt(api_key)
    elif stored := PoolMember.objects.select_for_update().filter(pk=member.pk).first():
        member.api_key = stored.api_key
    member.changed_at = now
    try:
        member.full_clean()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        field = "name" if field == NON_FIELD_ERRORS else field  # the constraint that a pool has a name once
        raise ApiError(400, f"`{field}` is invalid. {messages[0]}", details={"field": field}) from None
    if api_key is None and is_key_of_another_server(member, member.base_url):
        raise ApiError(400, f"`api_key` is missing. {KEY_OF_ANOTHER_SERVER}", details={"field": "api_key"})
    member.save()
    _record(action, member, actor, now, key_changed=api_key is not None)
    return member


@transaction.atomic
def remove_member(*, member: PoolMember, actor: User | None, now: datetime) -> None:
    """Delete a member. Its requests finish; without a last member the model is gone."""
    _record("pool_member.removed", member, actor, now)
    member.delete()


@transaction.atomic
def set_member_state(*, member: PoolMember, state: State, actor: User | None, now: datetime) -> None:
    """Drain a member, or enable it again."""
    PoolMember.objects.filter(pk=member.pk).update(state=state, changed_at=now)
    _record("pool_member.state_changed", member, actor, now, state=state)


def _record(action: str, member: PoolMember, actor: User | None, now: datetime, **details: Any) -> None:
    details |= {"model": member.model_id, "member": member.name, "base_url": member.base_url}
    record_audit_entry(
        action=action, actor=actor, target_type="pool_member", target_id=member.pk, details=details, now=now
    )
    transaction.on_commit(cache.expire)
