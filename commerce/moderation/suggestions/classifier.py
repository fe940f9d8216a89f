"""Logistic regression on the vectors of past decisions, with the confidence from which its suggestions are precise.

Everything here is a function of arrays. A label is true for content that was taken down.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Inputs = NDArray[np.float32]
Labels = NDArray[np.bool_]

TARGET_PRECISION = 0.95  # of suggestions on held-out decisions
MIN_DECISIONS = 50  # of a kind of content, before anything is suggested about it
MIN_SUGGESTIONS = 20  # held-out ones of a verdict: fewer say nothing about its precision
# Precision at which a confidence is chosen: the next one if the other half of the decisions does not confirm it.
CHOSEN_PRECISIONS = (0.95, 0.96, 0.97, 0.98, 0.99, 1.0)
REGULARIZATION = 0.5
FOLDS = 5
MAX_ITERATIONS = 8
TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True)
class VerdictRule:
    """A verdict is suggested from `confidence` on. The other figures were measured on held-out decisions."""

    confidence: float
    precision: float
    coverage: float
    suggestions: int


def fit(inputs: Inputs, labels: Labels) -> NDArray[np.float32]:
    """Return the weights of the columns and of the constant, by Newton's method (IRLS) with L2 regularization."""
    rows = _with_constant(inputs).astype(np.float64)
    weights = np.zeros(rows.shape[1])
    penalty = np.full(rows.shape[1], REGULARIZATION)
    penalty[-1] = 1e-6  # the constant: its share of verdicts is no prejudice
    for _ in range(MAX_ITERATIONS):
        shares = _sigmoid(rows @ weights)
        gradient = rows.T @ (shares - labels) + penalty * weights
        curvature = (rows * (shares * (1 - shares))[:, None]).T @ rows + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        weights -= step
        if np.abs(step).max() < TOLERANCE:
            break
    return weights.astype(np.float32)


def probabilities(weights: NDArray[np.float32], inputs: Inputs) -> NDArray[np.float64]:
    """Return the probability of each row that it would be taken down."""
    return _sigmoid((_with_constant(inputs) @ weights).astype(np.float64))


def held_out_probabilities(inputs: Inputs, labels: Labels) -> NDArray[np.float64]:
    """Return the probability of each row by a model that was fitted without it and every fifth row."""
    found = np.zeros(len(labels))
    for fold in range(FOLDS):
        is_out = np.arange(len(labels)) % FOLDS == fold
        found[is_out] = probabilities(fit(inputs[~is_out], labels[~is_out]), inputs[is_out])
    return found


def verdict_rule(confidences: NDArray[np.float64], is_right: Labels) -> VerdictRule | None:
    """Return the rule of one verdict about one kind of content, or None if no confidence makes it precise.

    The confidence is chosen on one half of the held-out decisions and measured on the other, both ways round, so that
    its precision is not the luck of the choice.
    """
    if len(confidences) < MIN_DECISIONS:
        return None
    rules = (_measured_rule(confidences, is_right, precision) for precision in CHOSEN_PRECISIONS)
    return next((rule for rule in rules if rule and rule.precision >= TARGET_PRECISION), None)


def _measured_rule(confidences: NDArray[np.float64], is_right: Labels, chosen_precision: float) -> VerdictRule | None:
    halves = np.arange(len(confidences)) // FOLDS % 2 == 0  # each has rows of all folds
    suggested, right = 0, 0
    for half in (halves, ~halves):
        confidence = _lowest_precise_confidence(confidences[half], is_right[half], chosen_precision)
        if confidence is None:
            return None
        shown = ~half & (confidences >= confidence)
        suggested, right = suggested + int(shown.sum()), right + int(is_right[shown].sum())
    confidence = _lowest_precise_confidence(confidences, is_right, chosen_precision)
    if confidence is None or suggested < MIN_SUGGESTIONS:
        return None
    return VerdictRule(
        confidence=confidence,
        precision=right / suggested,
        coverage=suggested / len(confidences),
        suggestions=suggested,
    )


def _lowest_precise_confidence(confidences: NDArray[np.float64], is_right: Labels, precision: float) -> float | None:
    order = np.argsort(-confidences, kind="stable")
    reached = np.cumsum(is_right[order]) / np.arange(1, len(order) + 1)
    precise = np.flatnonzero(reached >= precision)
    return float(confidences[order][precise[-1]]) if len(precise) else None


def _with_constant(inputs: Inputs) -> Inputs:
    return np.concatenate([inputs, np.ones((len(inputs), 1), np.float32)], axis=1)


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))
