"""The classifier and the rules by which its verdicts may be suggested."""

import numpy as np
import pytest

from commerce.moderation.suggestions.case_texts import fingerprint_of, text_features
from commerce.moderation.suggestions.classifier import (
    FOLDS,
    duplicate_folds,
    fit,
    held_out_probabilities,
    probabilities,
    verdict_rule,
)
from commerce.moderation.suggestions.training import measured_rules

RANDOM = np.random.default_rng(3)


def turns(count: int) -> np.ndarray:
    return np.arange(count) % FOLDS


def test_the_classifier_learns_a_direction_and_is_sure_far_from_the_border():
    inputs = RANDOM.normal(size=(400, 8)).astype(np.float32)
    labels = inputs[:, 2] > 0
    weights = fit(inputs, labels)
    assert (probabilities(weights, inputs).round() == labels).mean() > 0.97
    assert probabilities(weights, np.eye(8, dtype=np.float32)[2:3] * 4)[0] > 0.99


def test_held_out_probabilities_do_not_know_the_label_of_their_row():
    inputs = np.eye(100, dtype=np.float32)  # each row alone has its column: a model that saw it would be right
    labels = RANDOM.random(100) < 0.5
    found = held_out_probabilities(inputs, labels, turns(100))
    assert abs(((found > 0.5) == labels).mean() - 0.5) < 0.2


def test_nearly_equal_texts_are_in_one_fold_and_the_folds_are_of_one_size():
    campaigns = RANDOM.normal(size=(40, 16))
    contents = np.repeat(campaigns, 5, axis=0) + RANDOM.normal(size=(200, 16)) * 0.05
    contents = (contents / np.linalg.norm(contents, axis=1, keepdims=True)).astype(np.float32)
    folds = duplicate_folds(contents)
    assert all(len(set(folds[start : start + 5])) == 1 for start in range(0, 200, 5))
    assert np.bincount(folds).tolist() == [20] * FOLDS
    assert np.bincount(duplicate_folds(np.zeros((50, 16), np.float32))).tolist() == [5] * FOLDS


def test_what_only_repeats_itself_is_never_suggested():
    campaigns = np.repeat(np.eye(20, 24, dtype=np.float32), 20, axis=0)  # each says the same 20 times
    labels = np.repeat(RANDOM.random(20) < 0.5, 20)
    rules = measured_rules(campaigns, labels, np.full(400, "Review"), contents=campaigns)
    assert rules["Review"] == {}


def test_a_verdict_is_suggested_from_where_it_is_precise():
    confidences = RANDOM.random(1000)
    is_right = (confidences > 0.6) | (RANDOM.random(1000) < 0.5)
    rule = verdict_rule(confidences, is_right, turns(1000))
    assert rule is not None
    shown = confidences >= rule.confidence
    assert is_right[shown].mean() >= 0.95
    assert rule.precision >= 0.95
    assert 0.3 < rule.coverage < 0.6


def test_the_figures_of_a_rule_are_not_those_that_chose_its_confidence():
    confidences = np.linspace(1, 0.5, 500)
    is_right = np.arange(500) < 250
    is_right[turns(500) == 0] &= np.arange(50) < 20  # one fold is worse than the others have promised
    rule = verdict_rule(confidences, is_right, turns(500))
    assert rule is not None
    shown = confidences >= rule.confidence
    assert rule.suggestions != shown.sum()


@pytest.mark.parametrize("share", [0.03, 0.97])
def test_a_rare_verdict_does_not_make_the_other_one_certain(share: float):
    inputs = RANDOM.normal(size=(1000, 8)).astype(np.float32)
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    labels = inputs[:, 0] > np.quantile(inputs[:, 0], 1 - share)
    rules = measured_rules(inputs, labels, np.full(1000, "Review"), contents=inputs)["Review"]
    assert rules, "the common verdict is suggested"
    assert all(rule["confidence"] > 0.5 for rule in rules.values())
    assert max(rule["precision"] for rule in rules.values()) >= 0.985, "half the errors of always saying the same"
    removal = held_out_probabilities(inputs, labels, duplicate_folds(inputs))
    for action, shares, right in (("accepted", removal, labels), ("rejected", 1 - removal, ~labels)):
        if rule := rules.get(action):
            least = np.argsort(shares[shares >= rule["confidence"]])[:20]
            assert right[shares >= rule["confidence"]][least].mean() >= 0.85


def test_suggestions_with_little_confidence_are_precise_too():
    confidences = np.concatenate([np.linspace(1, 0.9, 950), np.linspace(0.6, 0.55, 40)])
    is_right = np.concatenate([np.ones(950, np.bool_), np.arange(40) % 2 == 0])  # 98 % of all, half of the last
    rule = verdict_rule(confidences, is_right, turns(990))
    assert rule is not None
    assert rule.confidence > 0.59


def test_a_common_verdict_is_not_suggested_about_all():
    assert verdict_rule(0.97 + 0.02 * RANDOM.random(1000), np.arange(1000) % 40 > 0, turns(1000)) is None


def test_what_is_right_by_chance_is_never_suggested():
    for _ in range(20):
        assert verdict_rule(RANDOM.random(600), RANDOM.random(600) < 0.7, turns(600)) is None


def test_nothing_is_suggested_after_few_decisions():
    confidences, is_right = np.linspace(1, 0.4, 50), np.arange(50) < 40
    assert verdict_rule(confidences[:49], is_right[:49], turns(49)) is None
    assert verdict_rule(confidences, is_right, turns(50)) is not None


def test_features_see_links_numbers_and_symbols():
    assert text_features("See www.cheap.example")[:2] == [1, 0]
    assert text_features("Call 0123 456 789?")[1:5:3] == [1, 1]
    assert text_features("Nice 🔥")[5] == 1
    assert text_features("")[2:4] == [0, 0]


def test_a_fingerprint_tells_where_a_text_stands():
    assert len({fingerprint_of("ab", "c"), fingerprint_of("a", "bc"), fingerprint_of("abc", "")}) == 3
