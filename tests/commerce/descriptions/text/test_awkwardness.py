"""Tests of the order of texts that keep the rules."""

import pytest

from commerce.descriptions.text.awkwardness import awkwardness
from commerce.descriptions.text.best_text import ACCEPTED_AWKWARDNESS
from commerce.descriptions.text.prompts import DescriptionRequest

pytestmark = pytest.mark.no_database

KETTLE = DescriptionRequest(product_name="Brunvale Kettle", keywords=("1.7 l", "stainless steel", "cordless"))


def score(text: str, name: str = "Velmo Lamp", *keywords: str) -> int:
    return awkwardness(text, DescriptionRequest(product_name=name, keywords=keywords))


def test_clauses_are_better_than_lists_and_lists_better_than_other_words():
    clauses = "Meet the Brunvale Kettle. It is cordless and made of stainless steel. It holds 1.7 l."
    listed = "Meet the Brunvale Kettle. Details: 1.7 l, stainless steel and cordless."

    assert awkwardness(clauses, KETTLE) == 0
    assert awkwardness(clauses, KETTLE) < awkwardness(listed, KETTLE)
    assert awkwardness(listed, KETTLE) < awkwardness(f"{listed} It sings and dances.", KETTLE)


@pytest.mark.parametrize(
    ("fact", "sentence"),
    [
        ("10 W", "It is rated at 10 W."), ("5 l", "It holds 5 l."), ("up to 15 kg", "It holds up to 15 kg."),
        ("500 ml", "It comes in a size of 500 ml."), ("500 g", "It weighs 500 g."), ("40 hours", "It lasts 40 hours."),
        ("15 inch", "It comes in a 15 inch size."), ("18 carat", "It is 18 carat."), ("A4", "It comes in A4."),
        ("2 to 6 players", "It is for 2 to 6 players."), ("camping", "It is made for camping."),
        ("70% cocoa", "It is made with 70% cocoa."), ("20 bags", "It comes in 20 bags."),
        ("gift box", "It comes in a gift box."), ("set of 4", "It comes as a set of 4."),
    ],
)  # fmt: skip
def test_each_figure_has_its_verb(fact: str, sentence: str):
    assert score(f"Meet the Velmo Lamp. {sentence}", "Velmo Lamp", fact) <= ACCEPTED_AWKWARDNESS
    assert score(f"Meet the Velmo Lamp. Its key fact: {fact}.", "Velmo Lamp", fact) > ACCEPTED_AWKWARDNESS


@pytest.mark.parametrize(
    ("name", "keywords", "better", "worse"),
    [
        ("Velmo Bag", ["5 l"], "Meet the Velmo Bag. It holds 5 l.", "Meet the Velmo Bag. It measures 5 l."),
        ("Velmo Rack", ["oak"], "Meet the Velmo Rack. It is made of oak.", "Meet the Velmo Rack. It comes in oak."),
        ("Velmo Lamp", ["IP65"], "The Velmo Lamp is rated at IP65.", "The Velmo Lamp is IP65."),
        ("Velmo Lamp", ["10xy"], "The Velmo Lamp is 10xy.", "The Velmo Lamp has a 10xy."),
        ("Velmo", ["warm lighting"], "Velmo has warm lighting.", "Velmo has a warm lighting."),
        ("Velmo Lamp", [], "Guess who is here: the Velmo Lamp!", "Guess who here: the Velmo Lamp!"),
        ("Velmo Lamp", [], "Please find the details of the Velmo Lamp.", "Please find the facts: the Velmo Lamp."),
        ("Velmo Lamp", ["A4", "USB-C port"], "Velmo Lamp: A4, USB-C port.", "Velmo Lamp: a4, usb-c port."),
        ("Velmo Nuts", ["long mechanism"], "Velmo Nuts have a long mechanism.", "Velmo Nuts have long mechanism nuts."),
        ("Velmo", [], "Meet Velmo. Velmo it is. It is here.", "Meet Velmo. Velmo it is. Velmo is here."),
        ("Velmo Shoes", [], "Here are the Velmo Shoes.", "Here is the Velmo Shoes."),
        ("Velmo Shoes II", ["red"], "The Velmo Shoes II come in red.", "The Velmo Shoes II comes in red."),
        ("Velmo Glass for Lovers", [], "This is the Velmo Glass for Lovers.", "These are the Velmo Glass for Lovers."),
        ("Tweezers Brow", ["red"], "Meet the Tweezers Brow. They are red.", "Meet the Tweezers Brow. It is red."),
        ("Velmo Lamp", [], "This is the Velmo Lamp.", "This is Velmo Lamp."),
        ("Velmo Lamp", ["oak"], "The Velmo Lamp is made of oak.", "Velmo Lamp is made of oak."),
        ("Velmo Tea", ["5 l"], "Velmo Tea comes in a size of 5 l.", "Velmo Tea holds 5 l."),
        ("Velmo Oil", ["oat milk"], "Velmo Oil is made with oat milk.", "Velmo Oil is made of oat milk."),
        ("Velmo", ["18 carat"], "Velmo is 18 carat.", "Velmo measures 18 carat."),
        ("Velmo", ["9% cotton"], "Velmo is made of 9% cotton.", "Velmo has 9% cotton."),
        ("Velmo Ring", ["5 mm", "9 cm"], "It measures 5 mm and 9 cm.", "It measures 5 mm and measures 9 cm."),
        ("Velmo Saw", ["lid"], "Meet the Velmo Saw. It has a lid.", "Meet the Velmo Saw, a lid."),
        ("Vegan lamp", [], "Meet the Vegan lamp.", "Meet the vegan lamp."),
        ("vegan lamp", [], "Meet it. Vegan lamp, at last.", "Meet the Vegan Lamp."),
        (
            "Velmo Saw", ["lid", "bag"], "The Velmo Saw is here. It has a lid and a bag.",
            "The Velmo Saw is here and has a lid and has a bag.",
        ),
        (
            "Velmo Saw", ["30-day returns", "lid"], "The Velmo Saw comes with 30-day returns. It has a lid.",
            "The Velmo Saw comes with 30-day returns and a lid.",
        ),
        (
            "Velmo Saw", ["quiet"], "The Velmo Saw is quiet.", "The Velmo Saw is quiet. Good to know: quiet.",
        ),
    ],
)  # fmt: skip
def test_the_text_that_reads_better_has_fewer_faults(name: str, keywords: list[str], better: str, worse: str):
    assert score(better, name, *keywords) < score(worse, name, *keywords)


@pytest.mark.parametrize("text", ["This is Gowds Sunscreen.", "These are Gowds Sunscreen."])
def test_a_name_that_does_not_say_its_number_has_either(text: str):
    other = text.replace("This is", "It is").replace("These are", "They are")

    assert score(other, "Gowds Sunscreen") == 0


def test_a_name_without_visible_characters_has_no_faults():
    request = DescriptionRequest(product_name="\u200b<b></b>", keywords=("quiet", "quiet", "\u200b"))

    assert awkwardness("It is quiet.", request) == 0


def test_the_grammar_of_other_languages_is_not_judged():
    request = DescriptionRequest(product_name="Velmo Wasserkocher", keywords=("1,7 l",), language="de")

    assert awkwardness("Here is velmo wasserkocher: 1,7 l.", request) == 0
