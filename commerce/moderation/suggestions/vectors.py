"""The vectors follow the cases: texts that have changed are embedded again by the model server.

The newest waiting cases and the newest decisions have vectors. A case whose texts are the same after all keeps its own.
"""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

import numpy as np
import structlog
from django.conf import settings
from django.db.models import F, QuerySet
from numpy.typing import NDArray

from commerce.model_server.embeddings import (
    PLAIN_TEXT,
    EmbeddingsClient,
    EmbeddingsUnavailable,
    Vector,
    cut_text,
    embeddings_client,
)
from commerce.moderation.models import Case, CaseVector, Decision
from commerce.moderation.reportable_content import CONTENT_MODELS
from commerce.moderation.suggestions.case_texts import CaseText, read_case_texts, text_features
from shared.accounts.personal_data.erasure import ERASED_EMAIL_DOMAIN

MAX_CASES = 2_000  # of the queue, and of past decisions
MAX_PER_RUN = 512
BATCH_SIZE = 64  # cases, of two texts each
CALL_TIMEOUT_SECONDS = 30.0
MIN_ALIKE_SIMILARITY = 0.97
MAX_PART_SIZE = 384  # numbers a text: cosines change by 0.05 at most, those near 1 by a tenth of it
PROJECTION_SEED = 20_261_126
PAST_ACTIONS = (Decision.Action.ACCEPTED, Decision.Action.REJECTED, Decision.Action.APPEAL_KEPT)
KEPT_AFTER_CHANGE = timedelta(days=1)  # of a case that is not compared: it is decided or appealed, and may return

log = structlog.get_logger(__name__)


def past_decisions(*, now: datetime) -> "QuerySet[Decision]":
    """Return the decisions that suggestions may learn from: a moderator's last word on a case, newest first."""
    final = Decision.objects.filter(action__in=PAST_ACTIONS, undone_at=None, undo_until__lte=now)
    last = final.filter(moderator__isnull=False, case__last_decision=F("pk"), case__is_waiting=False)
    return last.exclude(author__email__endswith=ERASED_EMAIL_DOMAIN).order_by("-id")


def update_case_vectors(*, now: datetime) -> int:
    """Embed cases whose texts have changed, at most MAX_PER_RUN. Return the number of new vectors."""
    if not (settings.MODERATION_SUGGESTIONS and settings.SEARCH_MODEL):
        return 0
    changes, count = _compared_cases(now), 0
    known = _clean_up(changes, now)
    stale = [pk for pk, time in changes.items() if known.get(pk) != time][:MAX_PER_RUN]
    for start in range(0, len(stale), BATCH_SIZE):
        batch = {pk: changes[pk] for pk in stale[start : start + BATCH_SIZE]}
        try:
            count += _embed(batch, now)
        except EmbeddingsUnavailable as failure:
            log.warning("moderation_embedding_failed", model=settings.SEARCH_MODEL, reason=str(failure))
            break
    return count


def _compared_cases(now: datetime) -> dict[int, datetime]:
    """Return the cases that have vectors, with the time of their last change."""
    waiting = Case.objects.waiting().filter(state=Case.State.OPEN).order_by("-newest_at", "-id")
    waiting = waiting.exclude(author__email__endswith=ERASED_EMAIL_DOMAIN)[:MAX_CASES]
    rows = list(waiting.values_list("pk", "updated_at", "model_type", "model_id"))
    written = {
        (kind, pk): time
        for kind, model in CONTENT_MODELS.items()
        for pk, time in model._default_manager.filter(pk__in=[row[3] for row in rows if row[2] == kind]).values_list(
            "pk", "updated_at"
        )
    }
    changes = {pk: max(time, written.get((kind, content), time)) for pk, time, kind, content in rows}
    return changes | dict(past_decisions(now=now).values_list("case_id", "case__updated_at")[:MAX_CASES])


def _clean_up(changes: Mapping[int, datetime], now: datetime) -> dict[int, datetime]:
    """Delete vectors of cases that are not compared any more. Return the times at which the others are right."""
    keep_from = now - KEPT_AFTER_CHANGE - settings.MODERATION_UNDO_WINDOW
    vectors = CaseVector.objects.filter(model=settings.SEARCH_MODEL)
    rows = vectors.values_list("pk", "case_id", "case__updated_at", "source_updated_at")
    known, unused = {}, []
    for pk, case_id, changed_at, source_updated_at in rows:
        if case_id in changes or changed_at >= keep_from:
            known[case_id] = source_updated_at
        else:
            unused.append(pk)
    for start in range(0, len(unused), MAX_PER_RUN):
        CaseVector.objects.filter(pk__in=unused[start : start + MAX_PER_RUN]).delete()
    return known


def _embed(changes: Mapping[int, datetime], now: datetime) -> int:
    """Make the vectors of these cases current. Raises EmbeddingsUnavailable."""
    model = settings.SEARCH_MODEL
    texts = read_case_texts(list(changes))
    stored = CaseVector.objects.filter(model=model, case__in=changes)
    fingerprints = dict(stored.values_list("case_id", "fingerprint"))
    new = [text for text in texts if fingerprints.get(text.case.pk) != text.fingerprint]
    for text in texts:
        if text not in new:
            stored.filter(case=text.case).update(source_updated_at=changes[text.case.pk])
    if not new:
        return 0
    vectors, dimensions = _vectors_of(model, new)
    rows = [
        CaseVector(
            case=text.case,
            model=model,
            dimensions=dimensions,
            vector=_whole_vector(text, vectors).astype("<f2").tobytes(),
            fingerprint=text.fingerprint,
            reason_id=text.reason_id,
            group=secrets.randbits(62),  # of its own, until it resembles another one
            source_updated_at=changes[text.case.pk],
            embedded_at=now,
        )
        for text in new
    ]
    _group(rows)
    fields = [field.name for field in CaseVector._meta.concrete_fields if field.name not in ("id", "case", "model")]
    unique = ["case", "model"]
    CaseVector.objects.bulk_create(rows, update_conflicts=True, unique_fields=unique, update_fields=fields)
    return len(rows)


def _vectors_of(model: str, texts: Sequence[CaseText]) -> tuple[dict[str, Vector], int]:
    """Return the projected vectors of parts by their text, zero where there is none, and the model's dimensions."""
    parts = sorted({part for text in texts for part in (text.content, text.reports)} - {""})
    beginnings = [cut_text(part) for part in parts]
    found = _client().embed_or_shorten(model, beginnings) if parts else []
    known = [vector for vector in found if vector is not None] or _client().embed(model, [PLAIN_TEXT])
    zero = np.zeros_like(project(known[0]))
    if refused := sum(vector is None for vector in found):
        log.warning("moderation_texts_refused", model=model, count=refused)
    by_text = {part: zero if vector is None else project(vector) for part, vector in zip(parts, found, strict=True)}
    return by_text | {"": zero}, len(known[0])


def _whole_vector(text: CaseText, vectors: Mapping[str, Vector]) -> Vector:
    features = np.array(text_features(text.content), np.float32)
    return np.concatenate([vectors[text.content], vectors[text.reports], features])


def _group(rows: Sequence[CaseVector]) -> None:
    """Give waiting cases with nearly the same content as an earlier one its group."""
    waiting = CaseVector.objects.filter(case__is_waiting=True, model=rows[0].model, dimensions=rows[0].dimensions)
    others = waiting.exclude(case__in=[row.case_id for row in rows]).order_by("-case_id")[:MAX_CASES]
    known = [(row.group, content_part(row)) for row in others.only("group", "vector", "dimensions")]
    groups, vectors = [group for group, _ in known], [vector for _, vector in known]
    for row in rows:
        if not row.case.is_waiting:
            continue
        vector = content_part(row)
        if vectors:
            similarities = np.stack(vectors) @ vector
            if similarities.max() >= MIN_ALIKE_SIMILARITY:
                row.group = groups[int(similarities.argmax())]
        groups.append(row.group)
        vectors.append(vector)


def read_vector(row: CaseVector) -> Vector:
    """Return the whole vector of a row: content, reports and features."""
    return np.frombuffer(row.vector, "<f2").astype(np.float32)


def content_part(row: CaseVector) -> NDArray[np.float32]:
    return read_vector(row)[: part_size(row.dimensions)]


def _client() -> EmbeddingsClient:
    return embeddings_client(
        base_url=settings.DESCRIPTIONS_BASE_URL,
        api_key=settings.DESCRIPTIONS_API_KEY,
        timeout_seconds=CALL_TIMEOUT_SECONDS,
    )


def part_size(dimensions: int) -> int:
    """Return the numbers that are stored of a vector with these dimensions."""
    return min(dimensions, MAX_PART_SIZE)


def project(vector: Vector) -> Vector:
    """Return a vector of length 1 and `part_size`: itself, or a random projection that is the same everywhere."""
    if len(vector) <= MAX_PART_SIZE:
        return vector
    projected = _signs(len(vector)) @ vector
    return projected / np.float32(max(float(np.linalg.norm(projected)), 1e-9))


@lru_cache(maxsize=2)
def _signs(dimensions: int) -> Vector:
    """Return a matrix of 1 and -1 from a bit generator, whose stream no version of NumPy changes."""
    words = np.random.PCG64(PROJECTION_SEED).random_raw(-(-MAX_PART_SIZE * dimensions // 64))
    bits = np.unpackbits(words.astype("<u8").view(np.uint8))[: MAX_PART_SIZE * dimensions]
    return (bits.reshape(MAX_PART_SIZE, dimensions).astype(np.float32) * 2) - 1
