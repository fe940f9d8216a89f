"""Training: the worker learns from past decisions, and measures on held-out ones what may be suggested."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from commerce.moderation.models import Case, CaseVector, ContentKind, Decision, SuggestionModel
from commerce.moderation.suggestions.classifier import (
    MIN_DECISIONS,
    Inputs,
    Labels,
    duplicate_folds,
    fit,
    held_out_probabilities,
    verdict_rule,
)
from commerce.moderation.suggestions.vectors import MAX_CASES, part_size, past_decisions, read_vector

VERDICTS = (Decision.Action.ACCEPTED, Decision.Action.REJECTED)
MIN_INTERVAL = timedelta(hours=1)
MAX_INTERVAL = timedelta(days=1)
MIN_GROWTH = 1.05
ABANDONED_AFTER = timedelta(days=3)


def update_suggestion_model(*, now: datetime) -> bool:
    """Learn anew from the newest decisions if there are enough more, or a day has passed. Return whether it did."""
    name = settings.SEARCH_MODEL
    if not (settings.MODERATION_SUGGESTIONS and name):
        return False
    current = SuggestionModel.objects.get_or_create(model=name)[0]
    if current.attempted_at is not None and now < current.attempted_at + MIN_INTERVAL:
        return False
    if current.trained_at is None and past_decisions(now=now)[:MIN_DECISIONS].count() < MIN_DECISIONS:
        return False  # which is no attempt: the first training follows the decision that allows it
    attempt = SuggestionModel.objects.filter(pk=current.pk, attempted_at=current.attempted_at)
    if not attempt.update(attempted_at=now):
        return False  # another worker was first
    _delete_abandoned_models(now)
    rows = past_vectors(name, now=now)
    is_due = current.trained_at is None or now >= current.trained_at + MAX_INTERVAL
    if not is_due and len(rows) < current.decisions_count * MIN_GROWTH:
        return False
    learned = _learned(rows) if len(rows) >= MIN_DECISIONS else None
    values = learned or {"dimensions": 0, "weights": b"", "rules": {}}
    SuggestionModel.objects.filter(pk=current.pk).update(**values, decisions_count=len(rows), trained_at=now)
    return learned is not None


def past_vectors(model: str, *, now: datetime) -> list[CaseVector]:
    """Return the vectors of the newest past decisions, oldest first. All have one size and different texts."""
    case_ids = list(past_decisions(now=now).values_list("case_id", flat=True)[:MAX_CASES])
    found = CaseVector.objects.filter(model=model, case__in=case_ids).select_related("case").order_by("embedded_at")
    rows = list({row.fingerprint: row for row in found}.values())
    dimensions = max(rows, key=lambda row: row.embedded_at).dimensions if rows else 0
    return sorted((row for row in rows if row.dimensions == dimensions), key=lambda row: row.case.last_decision_id or 0)


def _delete_abandoned_models(now: datetime) -> None:
    """Delete what was made for models of which no worker has learned for days, as each tries to every hour."""
    abandoned = SuggestionModel.objects.filter(attempted_at__lt=now - ABANDONED_AFTER)
    for name in list(abandoned.values_list("model", flat=True)):
        CaseVector.objects.filter(model=name).delete()
        SuggestionModel.objects.filter(model=name).delete()


def is_removal(row: CaseVector) -> bool:
    return row.case.state == Case.State.ACCEPTED


def measured_rules(
    inputs: Inputs, labels: Labels, kinds: NDArray[Any], *, contents: Inputs
) -> dict[str, dict[str, Any]]:
    """Return the rule of each kind of content and verdict that has one. `contents` are the vectors of its texts."""
    folds = duplicate_folds(contents)
    removal = held_out_probabilities(inputs, labels, folds)
    rules: dict[str, dict[str, Any]] = {}
    for kind in ContentKind.values:
        of_kind = kinds == kind
        sides = zip(VERDICTS, (removal, 1 - removal), (labels, ~labels), strict=True)
        found = {action: verdict_rule(share[of_kind], right[of_kind], folds[of_kind]) for action, share, right in sides}
        rules[kind] = {str(action): asdict(rule) for action, rule in found.items() if rule}
    return rules


def _learned(rows: list[CaseVector]) -> dict[str, Any] | None:
    labels = np.array([is_removal(row) for row in rows])
    if labels.all() or not labels.any():
        return None
    inputs, size = np.stack([read_vector(row) for row in rows]), part_size(rows[0].dimensions)
    kinds = np.array([row.case.model_type for row in rows])
    return {
        "dimensions": rows[0].dimensions,
        "weights": fit(inputs, labels).astype("<f4").tobytes(),
        "rules": measured_rules(inputs, labels, kinds, contents=inputs[:, :size]),
    }
