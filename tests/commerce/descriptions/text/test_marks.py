"""Tests of the marks at what is not in a product's data."""

import time

import pytest

from commerce.descriptions.text.marks import mark_phrases
from commerce.descriptions.text.prompts import DescriptionRequest
from commerce.descriptions.text.rules import MAX_PHRASES, missing_facts, unsupported_phrases

pytestmark = pytest.mark.no_database

KETTLE = DescriptionRequest(product_name="Brunvale Kettle", keywords=("1.7 l", "stainless steel"))


def marked(text: str, *phrases: str) -> list[str]:
    parts = mark_phrases(text, phrases)
    assert "".join(part.text for part in parts) == text
    return [part.text for part in parts if part.is_marked]


@pytest.mark.parametrize(
    ("text", "phrase", "words"),
    [
        ("An Oak table, and oaken legs.", "oak", ["Oak"]),
        ("Its eco-friendly and Eco  friendly lid.", "eco friendly", ["eco-friendly", "Eco  friendly"]),
        ("Two lamps, one Lamp.", "lamp", ["lamps", "Lamp"]),
        ("It weighs 2kg, 12 kg or 2.5 kg, not 2 pounds.", "2", ["2", "2"]),
        ("It holds 1.5 l.", "1.5", ["1.5"]),
        ("It\u2019s the baker\u2019s choice.", "baker's choice", ["baker\u2019s choice"]),
        ("Nothing of it (at all).", "c++ (all)", []),
    ],
)
def test_a_phrase_is_marked_wherever_it_stands(text: str, phrase: str, words: list[str]):
    assert marked(text, phrase) == words


def test_the_longest_of_overlapping_phrases_is_marked():
    assert marked("A memory foam pillow of foam.", "foam", "memory foam") == ["memory foam", "foam"]


def test_a_text_without_phrases_is_one_part():
    assert [(part.text, part.is_marked) for part in mark_phrases("A kettle.", [])] == [("A kettle.", False)]
    assert mark_phrases("", []) == []


@pytest.mark.parametrize(
    ("sentence", "phrases"),
    [
        ("It is made of stainless steel.", []),
        ("It weighs 2 kg.", ["2"]),
        ("It has three speeds.", ["three"]),
        ("Its lid is of bamboo, and certified.", ["bamboo", "certified"]),
        ("It is a vase.", ["vase"]),
        ("It is perfect for boiling water.", ["perfect", "boiling water"]),
    ],
)
def test_what_the_request_does_not_give_is_found(sentence: str, phrases: list[str]):
    assert unsupported_phrases(f"Meet the Brunvale Kettle. {sentence}", KETTLE) == phrases


@pytest.mark.parametrize(
    ("given", "sentence", "phrases"),
    [
        ("s", "It is of silk and steel.", ["steel", "silk"]),
        ("a", "Made of walnut.", ["walnut"]),
        ("5", "It lasts 50 hours, 25 books or 2.5 days, not 5.", ["50", "25", "2.5"]),
        ("red", "It has a hundred parts in red.", ["hundred"]),
    ],
)
def test_parts_of_words_and_numbers_are_not_given(given: str, sentence: str, phrases: list[str]):
    data = DescriptionRequest(product_name="Brunvale Kettle", keywords=(given,))

    assert set(unsupported_phrases(f"Meet the Brunvale Kettle. {sentence}", data)) == set(phrases)


def test_a_text_is_marked_quickly_whatever_it_says():
    numbers = " ".join(map(str, range(10_000, 13_300)))
    names = tuple(f"b{number}" for number in range(5_000))
    wordy = " ".join(f"for {name}" for name in names)[:20_000]
    data = DescriptionRequest(product_name="Brunvale Kettle", keywords=names)
    start = time.process_time()

    for text in (numbers, wordy, " ".join(names)[:20_000]):
        phrases = unsupported_phrases(text, data, is_plain=True)
        assert len(phrases) <= MAX_PHRASES
        mark_phrases(text, phrases)

    assert time.process_time() - start < 2


def test_every_word_that_is_not_plain_is_found_where_the_model_writes_plain_words_only():
    text = "Meet the velvety Brunvale Kettle."

    assert unsupported_phrases(text, KETTLE) == []
    assert unsupported_phrases(text, KETTLE, is_plain=True) == ["velvety"]


def test_facts_that_a_text_does_not_mention_are_missing():
    assert missing_facts("The Brunvale kettle holds 1.7 L.", KETTLE) == ["stainless steel"]
    lamp = DescriptionRequest(product_name="Oakhurst Lamp", keywords=("oak", "<b>"))
    assert missing_facts("The Oakhurst lamp is here.", lamp) == ["oak"]
