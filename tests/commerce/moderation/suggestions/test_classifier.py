"""The classifier and the rules by which its verdicts may be suggested."""

import numpy as np

from commerce.moderation.suggestions.classifier import fit, held_out_probabilities, probabilities, verdict_rule
from commerce.moderation.suggestions.texts import fingerprint_of, text_features

RANDOM = np.random.default_rng(3)


def test_the_classifier_learns_a_direction_and_is_sure_far_from_the_border():
    inputs = RANDOM.normal(size=(400, 8)).astype(np.float32)
    labels = inputs[:, 2] > 0
    weights = fit(inputs, labels)
    assert (probabilities(weights, inputs).round() == labels).mean() > 0.97
    assert probabilities(weights, np.eye(8, dtype=np.float32)[2:3] * 4)[0] > 0.99


def test_held_out_probabilities_do_not_know_the_label_of_their_row():
    inputs = np.eye(100, dtype=np.float32)  # each row alone has its column: a model that saw it would be right
    labels = RANDOM.random(100) < 0.5
    found = held_out_probabilities(inputs, labels)
    assert abs(((found > 0.5) == labels).mean() - 0.5) < 0.2


def test_a_verdict_is_suggested_from_where_it_is_precise():
    confidences = RANDOM.random(1000)
    is_right = (confidences > 0.6) | (RANDOM.random(1000) < 0.5)
    rule = verdict_rule(confidences, is_right)
    assert rule is not None
    shown = confidences >= rule.confidence
    assert is_right[shown].mean() >= 0.95
    assert rule.precision >= 0.95
    assert 0.3 < rule.coverage < 0.6


def test_what_is_right_by_chance_is_never_suggested():
    for _ in range(20):
        assert verdict_rule(RANDOM.random(600), RANDOM.random(600) < 0.7) is None


def test_nothing_is_suggested_after_few_decisions():
    assert verdict_rule(np.ones(49), np.ones(49, np.bool_)) is None
    assert verdict_rule(np.ones(50), np.ones(50, np.bool_)) is not None


def test_features_see_links_numbers_and_symbols():
    assert text_features("See www.cheap.example")[:2] == [1, 0]
    assert text_features("Call 0123 456 789?")[1:5:3] == [1, 1]
    assert text_features("Nice 🔥")[5] == 1
    assert text_features("")[2:4] == [0, 0]


def test_a_fingerprint_tells_where_a_text_stands():
    assert len({fingerprint_of("ab", "c"), fingerprint_of("a", "bc"), fingerprint_of("abc", "")}) == 3
