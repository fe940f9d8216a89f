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
DEVIATIONS = 0.75  # of the lower bound, so that the luck of the choice of a confidence does not count
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

    From the lowest confidence on at which the precision's lower bound (Wilson) reaches the target.
    """
    order = np.argsort(-confidences, kind="stable")
    counts = np.arange(1, len(order) + 1)
    precisions = np.cumsum(is_right[order]) / counts
    is_precise = (_lower_bounds(precisions, counts) >= TARGET_PRECISION) & (counts >= MIN_SUGGESTIONS)
    precise = np.flatnonzero(is_precise)
    if len(confidences) < MIN_DECISIONS or not len(precise):
        return None
    last = int(precise[-1])
    return VerdictRule(
        confidence=float(confidences[order[last]]),
        precision=float(precisions[last]),
        coverage=(last + 1) / len(order),
        suggestions=last + 1,
    )


def _lower_bounds(shares: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the lower ends of Wilson's score intervals."""
    square = DEVIATIONS**2
    spread = DEVIATIONS * np.sqrt(shares * (1 - shares) / counts + square / (4 * counts**2))
    bounds: NDArray[np.float64] = (shares + square / (2 * counts) - spread) / (1 + square / counts)
    return bounds


def _with_constant(inputs: Inputs) -> Inputs:
    return np.concatenate([inputs, np.ones((len(inputs), 1), np.float32)], axis=1)


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))
