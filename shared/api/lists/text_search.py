"""Search for words in one text column, for moderators' and admin pages.

PostgreSQL reads the index that `shared.migration_operations.AddTextIndex` makes. SQLite reads the column.
"""

import re
from typing import Any

from django.db import connections, models

MAX_WORDS = 8
MAX_WORD_LENGTH = 64
WORD = re.compile(r"[^\W_]+")


def query_words(text: str) -> list[str]:
    """Return the different words of a query in lower case. They hold letters and digits only, and no operator."""
    words = (word.lower()[:MAX_WORD_LENGTH] for word in WORD.findall(text))
    return list(dict.fromkeys(words))[:MAX_WORDS]


def _prefix_query(text: str) -> str:
    """Return the query of PostgreSQL whose quoted operands its own parser splits, as it split the text of the rows.

    A domain or an e-mail address is one word there.
    """
    chunks = [chunk[:MAX_WORD_LENGTH] for chunk in text.split()[:MAX_WORDS] if WORD.search(chunk)]
    quoted = (chunk.replace("\\", "\\\\").replace("'", "''") for chunk in chunks)
    return " & ".join(f"'{chunk}':*" for chunk in quoted)


def rows_with_words(model: type[models.Model], column: str, text: str, *, limit: int) -> list[Any]:
    """Return the ids of the newest rows whose column has words that begin with those of the text; none for no words."""
    words = query_words(text)
    if not words:
        return []
    rows = model._default_manager.order_by("-pk").values_list("pk", flat=True)
    if connections[rows.db].vendor != "postgresql":
        for word in words:
            rows = rows.filter(**{f"{column}__icontains": word})
        return list(rows[:limit])
    meta: Any = model._meta
    columns = (meta.db_table, meta.get_field(column).column, meta.pk.column)
    table, name, key = map(connections[rows.db].ops.quote_name, columns)
    statement = (
        f"SELECT {key} FROM {table} WHERE to_tsvector('simple', {name}) @@ to_tsquery('simple', %s) "  # noqa: S608 # nosec B608
        f"ORDER BY {key} DESC LIMIT %s"
    )
    with connections[rows.db].cursor() as cursor:
        cursor.execute(statement, [_prefix_query(text), limit])
        return [found for (found,) in cursor.fetchall()]
