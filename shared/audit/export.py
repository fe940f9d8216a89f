"""Export of the audit log as CSV or JSON lines, with constant memory."""

import csv
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from asgiref.sync import sync_to_async
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet

from shared.audit.models import AuditEntry
from shared.csv_cells import escape_csv_cell

COLUMNS = ("id", "at", "actor_id", "actor_email", "action", "target_type", "target_id", "request_id", "details")
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl; charset=utf-8"}
ROWS_PER_QUERY = 500

Record = Mapping[str, Any]


def export_entries(entries: "QuerySet[AuditEntry]", form: str) -> Iterator[bytes]:
    """Yield the entries, oldest first, in chunks. `form` is csv or jsonl."""
    if form == "csv":
        yield _csv_lines([dict(zip(COLUMNS, COLUMNS, strict=True))])
    to_bytes = _csv_lines if form == "csv" else _json_lines
    for rows in _batches(entries):
        yield to_bytes([_record(entry) for entry in rows])


async def aexport_entries(entries: "QuerySet[AuditEntry]", form: str) -> AsyncIterator[bytes]:
    """Yield the same for ASGI, where Django reads a synchronous stream to its end before it sends anything."""
    chunks = export_entries(entries, form)
    while chunk := await sync_to_async(_next_or_empty)(chunks):
        yield chunk


def _next_or_empty(chunks: Iterator[bytes]) -> bytes:
    return next(chunks, b"")


def _batches(entries: "QuerySet[AuditEntry]") -> Iterator[Sequence[AuditEntry]]:
    """Yield rows by id instead of an open cursor, so that a slow reader holds no transaction."""
    last = 0
    ordered = entries.select_related("actor").order_by("pk")
    while rows := list(ordered.filter(pk__gt=last)[:ROWS_PER_QUERY]):
        yield rows
        last = rows[-1].pk


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
