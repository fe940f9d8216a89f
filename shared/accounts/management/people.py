"""Lookup of users for management commands."""

from django.core.management.base import CommandError

from shared.accounts.models import User
from shared.api.query_params import parse_integer


def get_user(id_or_email: str) -> User:
    """Return the user of this id or e-mail address. Raise CommandError for an unknown one."""
    number = parse_integer(id_or_email)
    user = User.objects.filter(email=id_or_email.strip().lower() if number is None else "").first()
    user = User.objects.filter(pk=number).first() if number is not None else user
    if user is None:
        raise CommandError(f"There is no user with the id or e-mail address {id_or_email!r}.")
    return user
