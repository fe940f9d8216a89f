"""People, as they are named on the command line."""

from django.core.management.base import CommandError

from shared.accounts.models import User
from shared.api.query_params import parse_integer


def get_user(named: str) -> User:
    """By id or e-mail. Raises CommandError."""
    number = parse_integer(named)
    user = User.objects.filter(email=named.strip().lower() if number is None else "").first()
    user = User.objects.filter(pk=number).first() if number is not None else user
    if user is None:
        raise CommandError(f"There is nobody with the id or e-mail {named!r}.")
    return user
