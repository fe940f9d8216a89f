"""Export of the rows of this project that refer to a person, and of their account, as JSON."""

import json
from collections.abc import Iterator

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder

from shared.accounts.models import User
from shared.personal_data import personal_data_rules

ROWS_PER_CHUNK = 200
_SECRET_FIELDS = ("password", "token_version")
_ACCOUNT = tuple(field.attname for field in User._meta.concrete_fields if field.name not in _SECRET_FIELDS)


def export_person(*, user: User) -> Iterator[str]:
    """Yield one JSON object in chunks: the account, and all rows that refer to the person, by table and column.

    The whole object is never in memory.
    """
    account = {name: getattr(user, name) for name in _ACCOUNT}
    yield f'{{"project": {_json(settings.PROJECT)}, "account": {_json(account)}'
    for rule in personal_data_rules():
        for name, rows in rule.export(user):
            yield f", {_json(name)}: ["
            chunk: list[str] = []
            separator = ""
            for row in rows:
                chunk.append(_json(row))
                if len(chunk) == ROWS_PER_CHUNK:
                    yield separator + ", ".join(chunk)
                    chunk, separator = [], ", "
            yield (separator if chunk else "") + ", ".join(chunk) + "]"
    yield "}\n"


def _json(value: object) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)
