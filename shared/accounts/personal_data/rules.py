"""Personal data rules of the account tables."""

import re
from datetime import datetime

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType

from shared.accounts.models import ApiKey, SecondFactor, SignIn, SignInNetwork, User
from shared.accounts.roles import Role
from shared.accounts.services import LAST_ADMIN_ERROR, would_leave_no_admin
from shared.personal_data import PersonalDataRule, delete_rows


def _erase_keys(user: User, now: datetime) -> None:
    """Revoke the keys and clear their columns. The rows stay for the usage ledger, which refers to them."""
    user.api_keys.filter(revoked_at=None).update(revoked_at=now)
    user.api_keys.update(name="", secret_hash="", last_used_at=None)


def _erase_log(user: User, now: datetime) -> None:
    """Remove the e-mail address from the admin's log. Entries of the person's own actions stay with their id."""
    about = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(User), object_id=str(user.pk))
    about.update(object_repr=f"user {user.pk}")
    exact_address = re.compile(
        rf"(?<![\w.+%-]){re.escape(user.email)}(?![\w-]|\.\w)"
    )  # not as part of a longer address
    candidates = LogEntry.objects.filter(object_repr__contains=user.email).values_list("pk", "object_repr")
    LogEntry.objects.filter(pk__in=[pk for pk, text in candidates if exact_address.search(text)]).update(
        object_repr="erased"
    )


def last_admin_blocker(user: User) -> str:
    return LAST_ADMIN_ERROR if would_leave_no_admin(user=user, role=Role(user.role), is_active=False) else ""


RULES = (
    PersonalDataRule(ApiKey, "user", _erase_keys, excluded_fields=("secret_hash",)),
    delete_rows(SignIn, "user", excluded_fields=("refresh_id", "previous_refresh_id")),
    delete_rows(SignInNetwork, "user"),
    delete_rows(SecondFactor, "user", excluded_fields=("secret", "last_step", "recovery_codes")),
    PersonalDataRule(LogEntry, "user", _erase_log),
)
ERASURE_BLOCKERS = (last_admin_blocker,)
