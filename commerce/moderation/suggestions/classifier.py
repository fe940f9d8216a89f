"""Logistic regression on the vectors of past decisions, with the confidence from which its suggestions are precise.

Everything here is a function of arrays. A label is true for content that was taken down.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Inputs = NDArray[np.float32]
Labels = NDArray[np.bool_]

TARGET_PRECISION = 0.95  # of suggestions on held-out decisions
MAX_ERROR_SHARE = 0.5  # of the errors of always giving the verdict: where one is rare, 95 % right says nothing
MIN_CONFIDENCE = 0.5  # a suggestion is the likelier verdict
MIN_DECISIONS = 50  # of a kind of content, before anything is suggested about it
MIN_SUGGESTIONS = 20  # held-out ones of a verdict: fewer say nothing about its precision
MIN_COVERAGE = 0.1  # of the held-out decisions: a weak encoder is right about fewer by chance
MIN_TAIL_PRECISION = 0.85  # of the MIN_SUGGESTIONS with the lowest confidence: the others do not pay for them
MIN_DUPLICATE_SIMILARITY = 0.9  # cosine of content: such texts are one campaign
# Standard deviations below the precision of chosen suggestions, against the luck of the choice. The first that holds
# on decisions that did not choose is used.
MARGINS = (0.5, 0.75, 1.0, 1.5, 2.0)
REGULARIZATION = 0.5
FOLDS = 10
MAX_ITERATIONS = 8
TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True)
class VerdictRule:
    """A verdict is suggested from `confidence` on.

    The other figures were measured on held-out decisions that chose neither the weights nor the confidence.
    """

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


def duplicate_folds(contents: Inputs) -> NDArray[np.int64]:
    """Return the fold of each row; rows of nearly the same content, also through others, have the same one.

    contents: vectors of length 1, or 0 where there is no text, which resembles nothing.
    """
    clusters = _clusters(contents)
    counts = np.bincount(clusters, minlength=len(contents))
    folds, sizes = np.zeros(len(contents), np.int64), np.zeros(FOLDS, np.int64)
    for cluster in np.argsort(-counts, kind="stable"):  # the largest first, each into the smallest fold
        fold = int(sizes.argmin())
        folds[clusters == cluster] = fold
        sizes[fold] += counts[cluster]
        if not counts[cluster]:
            break
    return folds


def held_out_probabilities(inputs: Inputs, labels: Labels, folds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the probability of each row by a model that was fitted without its fold."""
    found = np.zeros(len(labels))
    for fold in range(FOLDS):
        is_out = folds == fold
        if is_out.any():
            found[is_out] = probabilities(fit(inputs[~is_out], labels[~is_out]), inputs[is_out])
    return found


def verdict_rule(confidences: NDArray[np.float64], is_right: Labels, folds: NDArray[np.int64]) -> VerdictRule | None:
    """Return the rule of one verdict about one kind of content, or None if no confidence makes it precise.

    Each fold is measured from the confidence on that the other folds choose.
    """
    if len(confidences) < MIN_DECISIONS:
        return None
    target = max(TARGET_PRECISION, 1 - MAX_ERROR_SHARE * (1 - float(is_right.mean())))
    rules = (_measured_rule(confidences, is_right, folds, target=target, margin=margin) for margin in MARGINS)
    return next((rule for rule in rules if rule and rule.precision >= target), None)


def _measured_rule(
    confidences: NDArray[np.float64], is_right: Labels, folds: NDArray[np.int64], *, target: float, margin: float
) -> VerdictRule | None:
    chosen = _lowest_precise(confidences, is_right, target, margin)
    if chosen is None:
        return None
    is_shown = np.zeros(len(confidences), np.bool_)
    for fold in range(FOLDS):
        others = folds != fold
        confidence = _lowest_precise(confidences[others], is_right[others], target, margin)
        if confidence is not None:
            is_shown |= ~others & (confidences >= confidence)
    count = int(is_shown.sum())
    if count < max(MIN_SUGGESTIONS, MIN_COVERAGE * len(confidences)):
        return None
    return VerdictRule(
        confidence=chosen,
        precision=float(is_right[is_shown].mean()),
        coverage=count / len(confidences),
        suggestions=count,
    )


def _lowest_precise(confidences: NDArray[np.float64], is_right: Labels, target: float, margin: float) -> float | None:
    """Return the lowest confidence from which on the verdict is precise, or None.

    The precision's lower bound (Wilson) reaches the target, and the least confident suggestions are precise too.
    """
    order = np.argsort(-confidences, kind="stable")
    ordered, hits = confidences[order], np.cumsum(is_right[order])
    counts = np.arange(1, len(order) + 1)
    earlier = np.concatenate([np.zeros(MIN_SUGGESTIONS, np.int64), hits])[: len(hits)]
    is_precise = (
        (ordered > MIN_CONFIDENCE)
        & (counts >= MIN_SUGGESTIONS)
        & (np.append(ordered[1:] < ordered[:-1], True))  # equal ones are suggested together
        & (_lower_bounds(hits / counts, counts, margin) >= target)
        & (hits - earlier >= MIN_TAIL_PRECISION * MIN_SUGGESTIONS)
    )
    precise = np.flatnonzero(is_precise)
    return float(ordered[precise[-1]]) if len(precise) else None


def _clusters(contents: Inputs) -> NDArray[np.int64]:
    """Return the cluster of each row: the number of its first row."""
    clusters = np.arange(len(contents))
    for row in range(1, len(contents)):
        alike = np.flatnonzero(contents[:row] @ contents[row] >= MIN_DUPLICATE_SIMILARITY)
        joined = np.unique(clusters[alike])
        if len(joined):
            clusters[row] = joined[0]
            for other in joined[1:]:
                clusters[clusters == other] = joined[0]
    return clusters


def _lower_bounds(shares: NDArray[np.float64], counts: NDArray[np.int64], margin: float) -> NDArray[np.float64]:
    """Return the lower ends of Wilson's score intervals of `margin` standard deviations."""
    square = margin**2
    spread = margin * np.sqrt(shares * (1 - shares) / counts + square / (4 * counts**2))
    bounds: NDArray[np.float64] = (shares + square / (2 * counts) - spread) / (1 + square / counts)
    return bounds


def _with_constant(inputs: Inputs) -> Inputs:
    return np.concatenate([inputs, np.ones((len(inputs), 1), np.float32)], axis=1)


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))
