"""Erasure of a person from the tables of this project and from the accounts."""

from datetime import datetime

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import transaction

from shared.accounts.models import User
from shared.accounts.services import lock_user_and_admins
from shared.api.errors import ApiError
from shared.audit.services import record_audit_entry
from shared.personal_data import erasure_blockers, personal_data_rules

ERASED_NAME = "Erased"
ERASED_EMAIL_DOMAIN = "@erased.invalid"


def erase_person(*, user: User, actor: User | None, now: datetime) -> None:
    """Erase the personal data of a user in this project's tables and in the account, permanently.

    Rows that others need, as orders and the usage ledger, stay with the id of the erased account. A second call erases
    what is new. `actor` is None for an operator on the command line. Raise ApiError 409 with the erasure blockers.
    """
    with transaction.atomic():
        person = lock_user_and_admins(user_id=user.pk)
        if blockers := erasure_blockers(person):
            raise ApiError(409, " ".join(blockers))
        for rule in personal_data_rules():
            if rule.erase:
                rule.erase(person, now)
        _erase_account(person)
        record_audit_entry(
            action="accounts.erased",
            actor=actor,
            target_type="User",
            target_id=person.pk,
            details={"project": settings.PROJECT},
            now=now,
        )
    user.refresh_from_db()


def is_erased(user: User) -> bool:
    """Return whether the account was erased, so that only its id is left."""
    return user.email == _erased_email(user)


def _erased_email(user: User) -> str:
    return f"erased-{user.pk}{ERASED_EMAIL_DOMAIN}"


def _erase_account(person: User) -> None:
    person.email, person.name = _erased_email(person), ERASED_NAME
    person.password, person.token_version = make_password(None), person.token_version + 1
    person.is_active, person.email_verified_at, person.last_login = False, None, None
    person.save()
