"""Condition that a row is one of many."""

import json
from collections.abc import Collection
from typing import Any

from django.db.models import F, Lookup
from django.db.models.sql.compiler import SQLCompiler


class IdIn(Lookup):
    """Condition that the primary key is one of these ids, which are one parameter.

    As a parameter each, a thousand ids take Django longer than the database.
    """

    lookup_name = "id_in"
    prepare_rhs = False

    def __init__(self, ids: Collection[int]) -> None:
        super().__init__(F("pk"), list(ids))

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> Any:
        column, parameters = self.process_lhs(compiler, connection)
        return f"{column} IN (SELECT value FROM json_each(%s))", [*parameters, json.dumps(self.rhs)]  # nosec B608

    def as_postgresql(self, compiler: SQLCompiler, connection: Any) -> Any:
        column, parameters = self.process_lhs(compiler, connection)
        return f"{column} = ANY(%s::bigint[])", [*parameters, self.rhs]
