"""Export of the audit log as CSV or JSON lines, with constant memory."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet

from shared.api.csv_cells import escape_csv_cell
from shared.audit.models import AuditEntry
from shared.querysets import pages_by_pk

COLUMNS = ("id", "at", "actor_id", "actor_email", "action", "target_type", "target_id", "request_id", "details")
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl; charset=utf-8"}

Record = Mapping[str, Any]


def export_entries(entries: "QuerySet[AuditEntry]", form: str) -> Iterator[bytes]:
    """Yield the entries, oldest first, in chunks. `form` is csv or jsonl."""
    if form == "csv":
        yield _csv_lines([dict(zip(COLUMNS, COLUMNS, strict=True))])
    to_bytes = _csv_lines if form == "csv" else _json_lines
    for rows in pages_by_pk(entries.select_related("actor")):
        yield to_bytes([_record(entry) for entry in rows])


def _record(entry: AuditEntry) -> Record:
    return {
        "id": entry.pk,
        "at": entry.at.isoformat(),
        "actor_id": entry.actor_id,
        "actor_email": entry.actor.email if entry.actor else None,
        "action": entry.action,
        "target_type": entry.target_type,
        "target_id": entry.target_id,
        "request_id": entry.request_id,
        "details": entry.details,
    }


def _json_lines(records: Sequence[Record]) -> bytes:
    lines = (json.dumps(record, ensure_ascii=False, cls=DjangoJSONEncoder) for record in records)
    return "".join(f"{line}\n" for line in lines).encode()


def _csv_lines(records: Sequence[Record]) -> bytes:
    text = StringIO()
    writer = csv.writer(text)
    writer.writerows([_cell(record[column]) for column in COLUMNS] for record in records)
    return text.getvalue().encode()


def _cell(value: Any) -> str:
    """Return the cell with spreadsheet formulas escaped, because users wrote parts of it."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, cls=DjangoJSONEncoder).replace(";", "\\u003b")
    return "" if value is None else escape_csv_cell(str(value))
