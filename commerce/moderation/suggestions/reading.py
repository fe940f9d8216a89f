"""Reads for the case page: a suggestion, the most similar past decisions, and the waiting cases that are alike."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from django.conf import settings
from django.db.models import Count, F, QuerySet
from numpy.typing import NDArray

from commerce.moderation.models import Case, CaseVector, Decision, ReportReason, SuggestionModel
from commerce.moderation.reportable_content import Reportable
from commerce.moderation.suggestions.case_texts import (
    content_rating,
    content_text,
    fingerprint_of,
    read_case_texts,
    reports_text,
)
from commerce.moderation.suggestions.classifier import probabilities
from commerce.moderation.suggestions.training import VERDICTS, is_removal, past_vectors
from commerce.moderation.suggestions.vectors import MIN_ALIKE_SIMILARITY, content_part, part_size, read_vector

MAX_SIMILAR = 5
MIN_SIMILARITY = 0.3  # of content and reports: less is chance
REASON_NEIGHBORS = 15
CHECK_SECONDS = 10.0
MAX_ALIKE = 200  # as many as a decision about many may have


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A verdict with the reason of similar removals, and the precision of such suggestions on held-out decisions."""

    action: str
    reason: ReportReason | None
    precision: float
    measured: int

    @property
    def percent(self) -> int:
        return int(self.precision * 100)


@dataclass(frozen=True, kw_only=True)
class SimilarDecision:
    """A past decision, and how similar its content and reports were: 1 is equal."""

    decision: Decision
    similarity: float

    @property
    def percent(self) -> int:
        return int(self.similarity * 100)


@dataclass(frozen=True, kw_only=True)
class CaseAdvice:
    """Advice from the shop's own decisions about a case. `alike` has the ids of waiting cases, this one included."""

    suggestion: Suggestion | None = None
    similar: Sequence[SimilarDecision] = ()
    alike: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class _Knowledge:
    """The trained model and the past cases of this process, read once a training."""

    version: tuple[datetime | None, datetime | None]
    checked_at: float  # of the monotonic clock
    reasons: Mapping[int, ReportReason]
    weights: NDArray[np.float32]  # empty: nothing is suggested
    dimensions: int
    rules: dict[str, dict[str, Any]]
    case_ids: NDArray[np.int64]
    kinds: NDArray[np.str_]
    is_removal: NDArray[np.bool_]
    reason_ids: NDArray[np.int64]  # 0: none
    vectors: NDArray[np.float32]


NO_ADVICE = CaseAdvice()
_known: dict[str, _Knowledge] = {}


def read_advice(
    case: Case, content: Reportable, open_messages: Sequence[str], row: CaseVector | None, *, has_alike: bool
) -> CaseAdvice:
    """Return the advice about a waiting case; none if its texts have changed since they were embedded.

    `open_messages` are those of its open reports, the newest first. `has_alike` says whether others are alike.
    """
    fingerprint = fingerprint_of(content_text(content), reports_text(open_messages), content_rating(content))
    if row is None or row.fingerprint != fingerprint:
        return NO_ADVICE
    alike = _alike(row) if has_alike else ()
    knowledge = _read_knowledge()
    if knowledge is None or knowledge.dimensions != row.dimensions:
        return CaseAdvice(alike=alike)
    similarities = _similarities(knowledge, case.model_type, row)
    return CaseAdvice(
        suggestion=_suggest(knowledge, case.model_type, row, similarities),
        similar=_similar_decisions(knowledge, similarities),
        alike=alike,
    )


def suggested_action(case_id: int) -> str:
    """Return the verdict that the page of a case suggests now, or an empty string."""
    case = Case.objects.filter(pk=case_id).first()
    row = current_vectors([case]).get(case_id) if case else None
    knowledge = _read_knowledge() if row else None
    if case is None or row is None or knowledge is None or knowledge.dimensions != row.dimensions:
        return ""
    if read_case_texts([case_id])[0].fingerprint != row.fingerprint:
        return ""
    found = _likely_verdict(knowledge, case.model_type, row)
    return found[0] if found else ""


def alike_cases(case_id: int) -> list[int]:
    """Return the waiting cases that still say nearly what this one said when it was embedded."""
    row = CaseVector.objects.filter(model=settings.SEARCH_MODEL, case=case_id).first()
    return _alike(row) if settings.MODERATION_SUGGESTIONS and row else []


def current_vectors(cases: Sequence[Case]) -> dict[int, CaseVector]:
    """Return the vectors of the open cases among these by the current model."""
    open_ids = [case.pk for case in cases if case.state == Case.State.OPEN]
    if not settings.MODERATION_SUGGESTIONS or not open_ids:
        return {}
    return {row.case_id: row for row in CaseVector.objects.filter(model=settings.SEARCH_MODEL, case__in=open_ids)}


def count_alike(rows: Mapping[int, CaseVector]) -> dict[int, int]:
    """Return how many waiting cases are alike, by the id of a case, for those with these vectors."""
    if not rows:
        return {}
    waiting = _waiting_vectors().filter(group__in={row.group for row in rows.values()})
    counts = dict(waiting.order_by().values_list("group").annotate(count=Count("case")))
    return {case_id: counts[row.group] for case_id, row in rows.items() if counts.get(row.group, 0) > 1}


def suggestion_figures(*, since: datetime) -> dict[str, int]:
    """Return how many decisions had a verdict `shown` to their moderators, and how many `followed` it."""
    standing = Decision.objects.filter(created_at__gte=since, undone_at=None, suggestion__isnull=False)
    return {"shown": standing.count(), "followed": standing.filter(action=F("suggestion__action")).count()}


def _waiting_vectors() -> "QuerySet[CaseVector]":
    return CaseVector.objects.filter(model=settings.SEARCH_MODEL, case__state=Case.State.OPEN)


def _alike(row: CaseVector) -> list[int]:
    """Return the cases of the group, this one included, that have not changed since they were embedded."""
    content = content_part(row)
    if not content.any():
        return []
    group = _waiting_vectors().filter(group=row.group, dimensions=row.dimensions)
    others = list(group.exclude(pk=row.pk).order_by("case_id")[: MAX_ALIKE - 1])
    near = [row, *(other for other in others if content_part(other) @ content >= MIN_ALIKE_SIMILARITY)]
    current = {text.case.pk: text.fingerprint for text in read_case_texts([each.case_id for each in near])}
    return sorted(each.case_id for each in near if current.get(each.case_id) == each.fingerprint)


def _read_knowledge() -> _Knowledge | None:
    """Return what was learned last; a process looks for a newer one every few seconds."""
    name = settings.SEARCH_MODEL
    known = _known.get(name)
    if known is not None and time.monotonic() < known.checked_at + CHECK_SECONDS:
        return known
    model = SuggestionModel.objects.filter(model=name).first()
    if model is None or model.attempted_at is None:
        return None
    if known is None or known.version != (model.attempted_at, model.trained_at):
        known = _load_knowledge(model, model.attempted_at)
    if known is None:
        return None
    _known.clear()
    _known[name] = replace(known, checked_at=time.monotonic())
    return known


def _load_knowledge(model: SuggestionModel, attempted_at: datetime) -> _Knowledge | None:
    rows = past_vectors(model.model, now=attempted_at)
    if not rows:
        return None
    return _Knowledge(
        version=(model.attempted_at, model.trained_at),
        checked_at=0.0,
        reasons=ReportReason.objects.in_bulk(),
        weights=np.frombuffer(model.weights if model.dimensions == rows[0].dimensions else b"", "<f4"),
        dimensions=rows[0].dimensions,
        rules=model.rules,
        case_ids=np.array([row.case_id for row in rows]),
        kinds=np.array([row.case.model_type for row in rows]),
        is_removal=np.array([is_removal(row) for row in rows]),
        reason_ids=np.array([row.reason_id or 0 for row in rows]),
        vectors=np.stack([read_vector(row) for row in rows]),
    )


def _similarities(knowledge: _Knowledge, kind: str, row: CaseVector) -> NDArray[np.float32]:
    """Return the mean similarity to each past case over the parts that either has; -1 for other kinds of content."""
    size, vector = part_size(knowledge.dimensions), read_vector(row)
    total, count = np.zeros(len(knowledge.kinds), np.float32), np.zeros(len(knowledge.kinds), np.int64)
    for part in (slice(0, size), slice(size, 2 * size)):
        total += knowledge.vectors[:, part] @ vector[part]
        count += vector[part].any() | knowledge.vectors[:, part].any(axis=1)
    similarities: NDArray[np.float32] = np.where(
        knowledge.kinds == kind, total / np.maximum(count, 1).astype(np.float32), np.float32(-1)
    )
    return similarities


def _likely_verdict(knowledge: _Knowledge, kind: str, row: CaseVector) -> tuple[str, dict[str, Any]] | None:
    """Return the verdict that a rule allows to suggest, with the rule."""
    if not len(knowledge.weights):
        return None
    removal = float(probabilities(knowledge.weights, read_vector(row)[None])[0])
    for action, share in zip(VERDICTS, (removal, 1 - removal), strict=True):
        rule = knowledge.rules.get(kind, {}).get(action)
        if rule and share >= rule["confidence"]:
            return str(action), rule
    return None


def _suggest(knowledge: _Knowledge, kind: str, row: CaseVector, similarities: NDArray[np.float32]) -> Suggestion | None:
    found = _likely_verdict(knowledge, kind, row)
    if found is None:
        return None
    action, rule = found
    reason = _likely_reason(knowledge, similarities) if action == Decision.Action.ACCEPTED else None
    return Suggestion(action=action, reason=reason, precision=rule["precision"], measured=rule["suggestions"])


def _likely_reason(knowledge: _Knowledge, similarities: NDArray[np.float32]) -> ReportReason | None:
    """Return the reason with the most weight among the most similar removals."""
    candidates = np.where(knowledge.is_removal & (knowledge.reason_ids > 0), similarities, -1)
    votes: dict[int, float] = defaultdict(float)
    for position in np.argsort(-candidates)[:REASON_NEIGHBORS]:
        if candidates[position] > 0:
            votes[int(knowledge.reason_ids[position])] += float(candidates[position]) ** 2
    return knowledge.reasons.get(max(votes, key=lambda pk: votes[pk])) if votes else None


def _similar_decisions(knowledge: _Knowledge, similarities: NDArray[np.float32]) -> list[SimilarDecision]:
    """Return the most similar decisions that still stand."""
    nearest = [place for place in np.argsort(-similarities)[: 2 * MAX_SIMILAR] if similarities[place] >= MIN_SIMILARITY]
    by_case = {int(knowledge.case_ids[place]): float(similarities[place]) for place in nearest}
    standing = Decision.objects.filter(
        case__in=by_case, case__last_decision=F("pk"), case__is_waiting=False, undone_at=None
    )
    found = [
        SimilarDecision(decision=decision, similarity=by_case[decision.case_id])
        for decision in standing.select_related("case", "moderator")
    ]
    return sorted(found, key=lambda each: -each.similarity)[:MAX_SIMILAR]


def forget_knowledge() -> None:
    """Forget what this process has read, for tests with other databases."""
    _known.clear()
