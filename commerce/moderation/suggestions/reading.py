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

from commerce.model_server.embeddings import Vector
from commerce.moderation.models import Case, CaseVector, Decision, ReportReason, SuggestionModel
from commerce.moderation.reportable_content import Reportable
from commerce.moderation.suggestions.classifier import probabilities
from commerce.moderation.suggestions.texts import content_text, fingerprint_of, reports_text
from commerce.moderation.suggestions.training import VERDICTS, is_removal, past_vectors
from commerce.moderation.suggestions.vectors import read_vector

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


@dataclass(frozen=True, kw_only=True)
class SimilarDecision:
    """A past decision, and how similar its content and reports were: 1 is equal."""

    decision: Decision
    similarity: float

    @property
    def text(self) -> str:
        """Return the content as it was."""
        content = self.decision.content
        return str(content.get("comment") or content.get("question") or "")


@dataclass(frozen=True, kw_only=True)
class CaseAdvice:
    """Advice from the shop's own decisions about a case. `alike` has the ids of waiting cases, this one included."""

    suggestion: Suggestion | None = None
    similar: Sequence[SimilarDecision] = ()
    alike: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class SuggestionFigures:
    """Decisions in some days to whose moderators a verdict was suggested, and how many followed it."""

    shown: int
    followed: int


@dataclass(frozen=True, kw_only=True)
class _Knowledge:
    """The trained model and the past cases of this process, read once a training."""

    trained_at: datetime
    checked_at: float  # of the monotonic clock
    reasons: Mapping[int, ReportReason]
    weights: NDArray[np.float32]
    dimensions: int
    rules: dict[str, dict[str, Any]]
    case_ids: NDArray[np.int64]
    kinds: NDArray[np.str_]
    is_removal: NDArray[np.bool_]
    reason_ids: NDArray[np.int64]  # 0: none
    vectors: NDArray[np.float32]


NO_ADVICE = CaseAdvice()
_known: dict[str, _Knowledge] = {}


def read_advice(case: Case, content: Reportable, open_messages: Sequence[str], *, has_alike: bool) -> CaseAdvice:
    """Return the advice about a waiting case; none if its texts have changed since they were embedded.

    `open_messages` are those of its open reports, the newest first. `has_alike` says whether others are alike.
    """
    row = _vector_of(case)
    if row is None or row.fingerprint != fingerprint_of(content_text(content), reports_text(open_messages)):
        return NO_ADVICE
    alike = _alike(row) if has_alike else ()
    knowledge = _read_knowledge()
    if knowledge is None or knowledge.dimensions != row.dimensions:
        return CaseAdvice(alike=alike)
    vector = read_vector(row)
    similarities = np.where(knowledge.kinds == case.model_type, _similarities(knowledge, vector), -1)
    return CaseAdvice(
        suggestion=_suggest(knowledge, case.model_type, vector, similarities),
        similar=_similar_decisions(knowledge, similarities),
        alike=alike,
    )


def count_alike(cases: Sequence[Case]) -> dict[int, int]:
    """Return how many waiting cases are alike, for those of these cases that are not alone, in one query at most."""
    rows = [row for case in cases if (row := _vector_of(case))]
    if not rows:
        return {}
    waiting = _waiting_vectors().filter(group__in={row.group for row in rows})
    counts = dict(waiting.order_by().values_list("group").annotate(count=Count("case")))
    return {row.case_id: counts[row.group] for row in rows if counts.get(row.group, 0) > 1}


def suggestion_figures(*, since: datetime) -> SuggestionFigures:
    standing = Decision.objects.filter(created_at__gte=since, undone_at=None, suggestion__isnull=False)
    followed = standing.filter(action=F("suggestion__action"))
    return SuggestionFigures(
        shown=standing.aggregate(count=Count("pk"))["count"], followed=followed.aggregate(count=Count("pk"))["count"]
    )


def _vector_of(case: Case) -> CaseVector | None:
    """Return the vector of an open case by the current model."""
    if not settings.MODERATION_SUGGESTIONS or case.state != Case.State.OPEN:
        return None
    row: CaseVector | None = getattr(case, "vector", None)
    return row if row is not None and row.model == settings.SEARCH_MODEL else None


def _waiting_vectors() -> "QuerySet[CaseVector]":
    return CaseVector.objects.filter(model=settings.SEARCH_MODEL, case__state=Case.State.OPEN)


def _alike(row: CaseVector) -> list[int]:
    alike = _waiting_vectors().filter(group=row.group)
    return list(alike.order_by("case").values_list("case_id", flat=True)[:MAX_ALIKE])


def _read_knowledge() -> _Knowledge | None:
    """Return what was learned last; a process looks for a newer one every few seconds."""
    name = settings.SEARCH_MODEL
    known = _known.get(name)
    if known is not None and time.monotonic() < known.checked_at + CHECK_SECONDS:
        return known
    model = SuggestionModel.objects.filter(model=name).first()
    if model is None:
        return None
    if known is None or known.trained_at != model.trained_at:
        known = _load_knowledge(model)
    if known is None:
        return None
    _known.clear()
    _known[name] = replace(known, checked_at=time.monotonic())
    return known


def _load_knowledge(model: SuggestionModel) -> _Knowledge | None:
    rows = [row for row in past_vectors(model.model, now=model.trained_at) if row.dimensions == model.dimensions]
    if not rows:
        return None
    return _Knowledge(
        trained_at=model.trained_at,
        checked_at=0.0,
        reasons=ReportReason.objects.in_bulk(),
        weights=np.frombuffer(model.weights, "<f4"),
        dimensions=model.dimensions,
        rules=model.rules,
        case_ids=np.array([row.case_id for row in rows]),
        kinds=np.array([row.case.model_type for row in rows]),
        is_removal=np.array([is_removal(row) for row in rows]),
        reason_ids=np.array([row.reason_id or 0 for row in rows]),
        vectors=np.stack([read_vector(row) for row in rows]),
    )


def _similarities(knowledge: _Knowledge, vector: Vector) -> NDArray[np.float32]:
    """Return the mean similarity of content and reports to each past case."""
    size = 2 * knowledge.dimensions
    return knowledge.vectors[:, :size] @ vector[:size] / np.float32(2)


def _suggest(knowledge: _Knowledge, kind: str, vector: Vector, similarities: NDArray[np.float32]) -> Suggestion | None:
    removal = float(probabilities(knowledge.weights, vector[None])[0])
    for action, share in zip(VERDICTS, (removal, 1 - removal), strict=True):
        rule = knowledge.rules.get(kind, {}).get(action)
        if rule and share >= rule["confidence"]:
            reason = _likely_reason(knowledge, similarities) if action == Decision.Action.ACCEPTED else None
            return Suggestion(action=action, reason=reason, precision=rule["precision"], measured=rule["suggestions"])
    return None


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
