"""The corpus: the same for the same seed, true to its product, well formed, and blind to what is kept for measuring."""

import inspect
import re
from random import Random

import pytest

from inference.builtin.corpus import product_kinds, prompts, templates, word_lists
from inference.builtin.corpus.examples import draw_case, draw_example, draw_pair, draw_product
from inference.builtin.corpus.invented_words import article, invented, is_held_out
from inference.builtin.corpus.keywords import Keyword, with_article
from inference.builtin.corpus.product_kinds import KINDS
from inference.builtin.corpus.realizer import ProductFacts, write_description
from inference.builtin.corpus.templates import TONES
from inference.builtin.corpus.text import join_words, repeated_five_grams
from inference.builtin.corpus.word_lists import NAME_WORDS


def texts_of(count: int, seed: str) -> list[str]:
    random = Random(seed)
    return [content for _ in range(count) for _, content in draw_example(random).turns]


def test_the_same_seed_draws_the_same_conversations() -> None:
    assert texts_of(50, "one") == texts_of(50, "one")
    assert texts_of(50, "one") != texts_of(50, "two")


def test_a_conversation_ends_with_the_assistant_and_asks_before_it_answers() -> None:
    random = Random("turns")
    for _ in range(200):
        roles = [role for role, _ in draw_example(random).turns]
        assert roles[-2:] == ["user", "assistant"]
        assert "system" not in roles[1:]


def test_a_description_names_its_product_and_holds_every_keyword() -> None:
    random = Random("whole")
    for _ in range(300):
        product = draw_product(random)
        text = write_description(product, random.choice(TONES), "medium", random)
        assert product.name in text
        assert [keyword.text for keyword in product.keywords if keyword.text not in text] == []


def test_keywords_come_in_the_order_in_which_they_were_given() -> None:
    words = tuple(Keyword(text, "adjective") for text in ("zabric", "quenous", "tovish", "melative"))
    text = write_description(ProductFacts("Velmo", KINDS[0], "lamp", words), "plain", "medium", Random(3))
    places = [text.index(word.text) for word in words]
    assert places == sorted(places)


def test_no_five_words_in_a_row_come_twice_in_a_description() -> None:
    random = Random("repeats")
    for _ in range(300):
        assert not repeated_five_grams(draw_pair(random)[1])


def test_a_repeated_five_gram_is_noticed() -> None:
    assert repeated_five_grams("It is made of oak. Well, it is made of oak.")
    assert not repeated_five_grams("It is made of oak. Well, it is made of pine.")


def test_every_sentence_is_capitalised_and_no_slot_is_left_open() -> None:
    random = Random("form")
    for _ in range(300):
        text = draw_pair(random)[1]
        assert not re.search(r"[{}\[\]|]|  |\s[.,!?]", text)
        assert not re.search(r"[.!?] [a-z]", text)
        assert text[-1] in ".!?"


def test_an_indefinite_article_suits_the_word_that_follows() -> None:
    random = Random("articles")
    for _ in range(300):
        for found, word in re.findall(r"\b(a|an) ([\w&'%-]+)", draw_pair(random)[1]):
            assert found == article(word)


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [("oak handle", "an"), ("lid", "a"), ("USB-C port", "a"), ("hourglass", "an"), ("LED lamp", "an"), ("8-bit", "an")],
)
def test_the_article_of_a_phrase(phrase: str, expected: str) -> None:
    assert article(phrase) == expected


def test_only_a_countable_keyword_takes_an_article() -> None:
    assert with_article(Keyword("oak handle", "count")) == "an oak handle"
    assert with_article(Keyword("cotton", "material")) == "cotton"


def test_a_list_of_words_reads_as_english() -> None:
    assert join_words(["a"]) == "a"
    assert join_words(["a", "b", "c"]) == "a, b and c"


def test_the_words_kept_for_measuring_never_appear_in_a_training_text() -> None:
    english = " ".join(inspect.getsource(module) for module in (product_kinds, templates, prompts, word_lists))
    seen = {word.lower() for text in texts_of(2000, "training") for word in re.findall(r"[^\W\d_]+", text)}
    random = Random("kept")
    kept = {invented(random, held_out=True) for _ in range(3000)}
    assert kept & seen <= set(re.findall(r"[^\W\d_]+", re.sub("[{}]", "", english.lower())))


def test_a_case_for_measuring_has_a_name_that_training_cannot_draw() -> None:
    random = Random("cases")
    known = {word.lower() for word in NAME_WORDS}
    for _ in range(100):
        words = re.findall(r"[^\W\d_]+", draw_case(random).product.name.lower())
        parts = [word for word in words if word not in known]
        endings = [word.removesuffix(known_word) for word in parts for known_word in (*known, "")]
        assert any(is_held_out(word) for word in endings if word)


def test_a_case_asks_for_its_own_product() -> None:
    random = Random("prompts")
    for _ in range(100):
        case = draw_case(random)
        assert case.product.name in case.prompt
        assert all(keyword.text in case.prompt for keyword in case.product.keywords)
        assert 1 <= len(case.product.keywords) <= 5
