"""Telling a person what is kept about them, and erasing it: each project for its own tables and the accounts."""

import json
from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder

from shared.accounts.models import User
from shared.personal_data import personal_data_rules

ROWS_A_PIECE = 200
_ACCOUNT = ("id", "email", "name", "role", "is_active", "email_verified_at", "created_at", "last_login")


def export_person(*, user: User) -> Iterator[str]:
    """One JSON object in pieces: the account, and all rows of this project that name the person, by table and column.
    It may be long, and is never whole in memory."""
    account = {name: getattr(user, name) for name in _ACCOUNT}
    yield f'{{"project": {_json(settings.PROJECT)}, "account": {_json(account)}'
    for rule in personal_data_rules():
        for name, rows in rule.export(user):
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


def _json(value: object) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)
