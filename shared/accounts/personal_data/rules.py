"""What accounts keep about a person."""

import re
from datetime import datetime

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType

from shared.accounts.models import ApiKey, SignIn, User
from shared.accounts.roles import Role
from shared.accounts.services import LAST_ADMIN_ERROR, would_leave_no_admin
from shared.personal_data import PersonalDataRule, delete_rows


def _erase_keys(user: User, now: datetime) -> None:
    """They open nothing any more, and stay for the ledger of usage, which names them."""
    user.api_keys.filter(revoked_at=None).update(revoked_at=now)
    user.api_keys.update(name="", secret_hash="", last_used_at=None)


def _erase_log(user: User, now: datetime) -> None:
    """What the admin wrote down about them has their e-mail in it; what they did there stays, under their id."""
    about = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(User), object_id=str(user.pk))
    about.update(object_repr=f"user {user.pk}")
    named = re.compile(rf"(?<![\w.+%-]){re.escape(user.email)}(?![\w-]|\.\w)")  # and no longer e-mail that has it in it
    maybe = LogEntry.objects.filter(object_repr__contains=user.email).values_list("pk", "object_repr")
    LogEntry.objects.filter(pk__in=[pk for pk, told in maybe if named.search(told)]).update(object_repr="erased")


def last_admin_blocker(user: User) -> str:
    return LAST_ADMIN_ERROR if would_leave_no_admin(user=user, role=Role(user.role), is_active=False) else ""


RULES = (
    PersonalDataRule(ApiKey, "user", _erase_keys, excluded_fields=("secret_hash",)),
    delete_rows(SignIn, "user", excluded_fields=("refresh_id",)),
    PersonalDataRule(LogEntry, "user", _erase_log),
)
ERASURE_BLOCKERS = (last_admin_blocker,)
