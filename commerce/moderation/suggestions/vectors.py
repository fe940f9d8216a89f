"""The vectors follow the cases: texts that have changed are embedded again by the model server.

The newest waiting cases and the newest decisions have vectors. A case whose texts are the same after all keeps its own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import structlog
from django.conf import settings
from django.db.models import F, QuerySet
from numpy.typing import NDArray

from commerce.model_server.embeddings import EmbeddingsClient, EmbeddingsUnavailable, Vector, embeddings_client
from commerce.moderation.models import AbuseReport, Case, CaseVector, Decision, ReportReason
from commerce.moderation.reportable_content import CONTENT_MODELS
from commerce.moderation.suggestions.texts import (
    content_text,
    fingerprint_of,
    recorded_text,
    reports_text,
    text_features,
)

MAX_CASES = 2_000  # of the queue, and of past decisions
MAX_PER_RUN = 512
BATCH_SIZE = 64  # cases, of two texts each
CALL_TIMEOUT_SECONDS = 30.0
MIN_ALIKE_SIMILARITY = 0.97
PAST_ACTIONS = (Decision.Action.ACCEPTED, Decision.Action.REJECTED, Decision.Action.APPEAL_KEPT)
NO_TEXT = "-"  # servers refuse empty texts

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class CaseText:
    """The texts of a case: as they are if it waits, else as they were at the decision."""

    case: Case
    content: str
    reports: str
    reason_id: int | None

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.content, self.reports)


def past_decisions(*, now: datetime) -> "QuerySet[Decision]":
    """Return the decisions that suggestions may learn from: a moderator's last word on a case, newest first."""
    final = Decision.objects.filter(action__in=PAST_ACTIONS, undone_at=None, undo_until__lte=now)
    last = final.filter(moderator__isnull=False, case__last_decision=F("pk"), case__is_waiting=False)
    return last.order_by("-id")


def update_case_vectors(*, now: datetime) -> int:
    """Embed cases whose texts have changed, at most MAX_PER_RUN. Return the number of new vectors."""
    if not (settings.MODERATION_SUGGESTIONS and settings.SEARCH_MODEL):
        return 0
    changes, count = _changes(now), 0
    stale = list(changes)[:MAX_PER_RUN]
    for start in range(0, len(stale), BATCH_SIZE):
        batch = {pk: changes[pk] for pk in stale[start : start + BATCH_SIZE]}
        try:
            count += _embed(batch, now)
        except EmbeddingsUnavailable as failure:
            log.warning("moderation_embedding_failed", model=settings.SEARCH_MODEL, reason=str(failure))
            break
    return count


def _changes(now: datetime) -> dict[int, datetime]:
    """Return the cases that changed since they were embedded, with the time of the change."""
    waiting = Case.objects.waiting().filter(state=Case.State.OPEN).order_by("-newest_at", "-id")[:MAX_CASES]
    rows = list(waiting.values_list("pk", "updated_at", "model_type", "model_id"))
    written = {
        (kind, pk): time
        for kind, model in CONTENT_MODELS.items()
        for pk, time in model._default_manager.filter(pk__in=[row[3] for row in rows if row[2] == kind]).values_list(
            "pk", "updated_at"
        )
    }
    changes = {pk: max(time, written.get((kind, content), time)) for pk, time, kind, content in rows}
    changes |= dict(past_decisions(now=now).values_list("case_id", "case__updated_at")[:MAX_CASES])
    vectors = CaseVector.objects.filter(model=settings.SEARCH_MODEL, case__in=changes)
    known = dict(vectors.values_list("case_id", "source_updated_at"))
    return {pk: time for pk, time in changes.items() if known.get(pk) != time}


def _embed(changes: Mapping[int, datetime], now: datetime) -> int:
    """Make the vectors of these cases current. Raises EmbeddingsUnavailable."""
    model = settings.SEARCH_MODEL
    texts = _read_texts(list(changes))
    stored = CaseVector.objects.filter(model=model, case__in=changes)
    fingerprints = dict(stored.values_list("case_id", "fingerprint"))
    new = [text for text in texts if fingerprints.get(text.case.pk) != text.fingerprint]
    for text in texts:
        if text not in new:
            stored.filter(case=text.case).update(source_updated_at=changes[text.case.pk])
    if not new:
        return 0
    inputs = [part or NO_TEXT for text in new for part in (text.content, text.reports)]
    vectors = _client().embed(model, inputs)
    rows = [
        CaseVector(
            case=text.case,
            model=model,
            dimensions=len(content),
            vector=np.concatenate([content, reports, text_features(text.content)]).astype("<f2").tobytes(),
            fingerprint=text.fingerprint,
            reason_id=text.reason_id,
            group=text.case.pk,
            source_updated_at=changes[text.case.pk],
            embedded_at=now,
        )
        for text, content, reports in zip(new, vectors[::2], vectors[1::2], strict=True)
    ]
    _group(rows)
    fields = [field.name for field in CaseVector._meta.concrete_fields if field.name != "case"]
    CaseVector.objects.bulk_create(rows, update_conflicts=True, unique_fields=["case"], update_fields=fields)
    return len(rows)


def _read_texts(case_ids: Sequence[int]) -> list[CaseText]:
    cases = Case.objects.filter(pk__in=case_ids).select_related("last_decision")
    open_cases = [case for case in cases if case.is_waiting]
    decided = [case for case in cases if not case.is_waiting]
    contents = {
        kind: model._default_manager.in_bulk([case.model_id for case in open_cases if case.model_type == kind])
        for kind, model in CONTENT_MODELS.items()
    }
    reports = defaultdict(list)
    rows = AbuseReport.objects.filter(
        model_id__in=[case.model_id for case in open_cases], status=AbuseReport.Status.OPEN
    )
    for report in rows.order_by("-id"):
        reports[report.model_type, report.model_id].append(report)
    reason_ids = set(ReportReason.objects.values_list("pk", flat=True))  # a deleted one may be in a record
    texts = []
    for case in open_cases:
        own = reports[case.model_type, case.model_id]
        texts.append(
            CaseText(
                case=case,
                content=content_text(contents[case.model_type][case.model_id]),
                reports=reports_text([report.message for report in own]),
                reason_id=_commonest((report.reason_id for report in own), reason_ids),
            )
        )
    for case in decided:
        decision = case.last_decision
        if decision is None:
            continue
        records = sorted(decision.reports, key=lambda record: -record["id"])
        texts.append(
            CaseText(
                case=case,
                content=recorded_text(decision.content),
                reports=reports_text([record["message"] for record in records]),
                reason_id=_commonest((record.get("reason_id") for record in records), reason_ids),
            )
        )
    return texts


def _commonest(reason_ids: Iterable[int | None], existing: set[int]) -> int | None:
    counts = Counter(pk for pk in reason_ids if pk in existing)
    return counts.most_common(1)[0][0] if counts else None


def _group(rows: Sequence[CaseVector]) -> None:
    """Give waiting cases with nearly the same content as an earlier one its group."""
    waiting = CaseVector.objects.filter(case__is_waiting=True, model=rows[0].model, dimensions=rows[0].dimensions)
    others = waiting.exclude(case__in=[row.case_id for row in rows]).order_by("-case")[:MAX_CASES]
    known = [(row.group, content_part(row)) for row in others.only("group", "vector", "dimensions")]
    groups, vectors = [group for group, _ in known], [vector for _, vector in known]
    for row in rows:
        vector = content_part(row)
        if row.case.is_waiting and vectors:
            similarities = np.stack(vectors) @ vector
            if similarities.max() >= MIN_ALIKE_SIMILARITY:
                row.group = groups[int(similarities.argmax())]
        if row.case.is_waiting:
            groups.append(row.group)
            vectors.append(vector)


def read_vector(row: CaseVector) -> Vector:
    """Return the whole vector of a row: content, reports and features."""
    return np.frombuffer(row.vector, "<f2").astype(np.float32)


def content_part(row: CaseVector) -> NDArray[np.float32]:
    return read_vector(row)[: row.dimensions]


def _client() -> EmbeddingsClient:
    return embeddings_client(
        base_url=settings.DESCRIPTIONS_BASE_URL,
        api_key=settings.DESCRIPTIONS_API_KEY,
        timeout_seconds=CALL_TIMEOUT_SECONDS,
    )
