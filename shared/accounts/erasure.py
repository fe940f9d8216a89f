"""Telling a person what is kept about them, and erasing it: each project for its own tables and the accounts."""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction

from shared.accounts.models import User
from shared.accounts.person_rules import all_rules, hindrances
from shared.accounts.services import lock_with_admins
from shared.api.errors import ApiError
from shared.audit.services import record

ROWS_A_PIECE = 200
ERASED_NAME = "Erased"
_ACCOUNT = ("id", "email", "name", "role", "is_active", "email_verified_at", "created_at", "last_login")


def export_person(*, user: User) -> Iterator[str]:
    """One JSON object in pieces: the account, and all rows of this project that name the person, by table and column.
    It may be long, and is never whole in memory."""
    account = {name: getattr(user, name) for name in _ACCOUNT}
    yield f'{{"project": {_json(settings.PROJECT)}, "account": {_json(account)}'
    for rule in all_rules():
        for name, rows in rule.told(user):
            yield f", {_json(name)}: ["
            piece: list[str] = []
            separator = ""
            for row in rows:
                piece.append(_json(row))
                if len(piece) == ROWS_A_PIECE:
                    yield separator + ", ".join(piece)
                    piece, separator = [], ", "
            yield (separator if piece else "") + ", ".join(piece) + "]"
    yield "}\n"


async def aexport_person(*, user: User) -> AsyncIterator[str]:
    """The same for ASGI, where a stream that is not asynchronous is read to its end before anything is sent."""
    pieces = export_person(user=user)
    while piece := await sync_to_async(_next_or_nothing)(pieces):
        yield piece


def _next_or_nothing(pieces: Iterator[str]) -> str:
    return next(pieces, "")


def erase_person(*, user: User, actor: User | None, now: datetime) -> None:
    """Takes all that is personal out of this project's tables and the account, for good. What others need, as orders
    and the ledger of usage, stays under an id behind which nobody is left. Erasing somebody again does what is new.

    Raises ApiError 409 with what has to be settled before. `actor` None: an operator, on the command line."""
    with transaction.atomic():
        person = lock_with_admins(user_id=user.pk)
        if unsettled := hindrances(person):
            raise ApiError(409, " ".join(unsettled))
        for rule in all_rules():
            if rule.erase:
                rule.erase(person, now)
        _erase_account(person)
        record(
            action="accounts.erased",
            actor=actor,
            target_type="User",
            target_id=person.pk,
            details={"project": settings.PROJECT},
            now=now,
        )
    user.refresh_from_db()


def _erase_account(person: User) -> None:
    person.email, person.name = f"erased-{person.pk}@erased.invalid", ERASED_NAME
    person.password, person.token_version = make_password(None), person.token_version + 1
    person.is_active, person.email_verified_at, person.last_login = False, None, None
    person.save()


def _json(value: object) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)
