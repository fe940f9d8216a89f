"""Records of reports, cases and content as they were before a decision: what undo restores and the audit log keeps.

The fields of reports and cases come from their models, so that a new field is restored like the others.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Field, Model

from commerce.moderation.models import AbuseReport, Case, Decision
from commerce.moderation.reportable_content import Reportable
from commerce.reviews.models import Review

# The identity of a case, the figures that `recount` derives, and the claim of a moderator: undo leaves them alone.
NOT_RESTORED_CASE_FIELDS = frozenset(
    (
        "id", "model_type", "model_id", "author", "shop", "language", "created_at", "updated_at", "is_waiting",
        "reports_count", "weight", "trusted_count", "is_brigaded", "newest_at", "oldest_at", "reason", "severity",
        "due_at", "claimed_by", "claimed_until",
    )
)  # fmt: skip
# The erasure of a person empties the message: undo leaves that of an existing report alone.
NOT_RESTORED_REPORT_FIELDS = frozenset({"id", "message"})
VISIBILITY_FIELDS = ("deleted_at", "hidden_at", "updated_at")

ModelFields = Iterable["Field[Any, Any]"]


def report_record(report: AbuseReport) -> dict[str, Any]:
    """Return every column of a report as a JSON value."""
    return _record(report, AbuseReport._meta.concrete_fields)


def state_record(case: Case, content: Reportable) -> dict[str, Any]:
    """Return what undo restores: fields of the case and, under `content`, the visibility of the content."""
    visibility = [field for field in content._meta.concrete_fields if field.name in VISIBILITY_FIELDS]
    return _record(case, _restored_case_fields()) | {"content": _record(content, visibility)}


def content_record(content: Reportable) -> dict[str, Any]:
    """Return the text of a review or question with its author and product."""
    common = {"user_id": content.user_id, "product_id": content.product_id, "product": content.product.name}
    if isinstance(content, Review):
        photos = list(content.photos.order_by("pk").values_list("pk", flat=True))
        return common | {"comment": content.comment, "rating": content.rating, "photos": photos}
    return common | {"question": content.question, "answer": content.answer}


def restore_reports(decision: Decision) -> None:
    """Restore the reports of a decision. A deleted one stays deleted if its reporter has reported the content again."""
    records = {record["id"]: record for record in decision.reports}
    existing = AbuseReport.objects.in_bulk(list(records))
    fields = [field for field in AbuseReport._meta.concrete_fields if field.name not in NOT_RESTORED_REPORT_FIELDS]
    changed = {name for pk, report in existing.items() for name in _restore(report, fields, records[pk])}
    if changed:
        AbuseReport.objects.bulk_update(existing.values(), sorted(changed), batch_size=500)
    case, deleted = decision.case, [record for pk, record in records.items() if pk not in existing]
    # Records of earlier versions do not have the kind and the id of the content.
    reports = [AbuseReport(model_type=case.model_type, model_id=case.model_id) for _ in deleted]
    for report, record in zip(reports, deleted, strict=True):
        _restore(report, AbuseReport._meta.concrete_fields, record)
    AbuseReport.objects.bulk_create(reports, ignore_conflicts=True)


def restore_case(case: Case, before: Mapping[str, Any]) -> None:
    """Restore the fields of a case on the instance; the caller saves it."""
    _restore(case, _restored_case_fields(), before)


def _restored_case_fields() -> ModelFields:
    return [field for field in Case._meta.concrete_fields if field.name not in NOT_RESTORED_CASE_FIELDS]


def _record(row: Model, fields: ModelFields) -> dict[str, Any]:
    values = {field: field.value_from_object(row) for field in fields}
    return {field.attname: value if _is_json(value) else field.value_to_string(row) for field, value in values.items()}


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | dict)


def _restore(row: Model, fields: ModelFields, record: Mapping[str, Any]) -> list[str]:
    """Set the fields that a record has, and return the names of those that differed."""
    changed = []
    for field in fields:
        if field.attname in record:
            value = field.to_python(record[field.attname])
            if value != field.value_from_object(row):
                setattr(row, field.attname, value)
                changed.append(field.name)
    return changed
