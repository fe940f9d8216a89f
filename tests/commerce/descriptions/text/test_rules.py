"""Tests of the rules of descriptions."""

import pytest

from commerce.descriptions.text.prompts import DescriptionRequest
from commerce.descriptions.text.rules import broken_rules, plain_statement

pytestmark = pytest.mark.no_database

KETTLE = DescriptionRequest(product_name="Brunvale Kettle", keywords=("1.7 l", "stainless steel", "cordless"))
GOOD = "Meet the Brunvale Kettle. It holds 1.7 l, is made of stainless steel and is cordless."


def broken(text: str, request: DescriptionRequest = KETTLE, *, ended: bool = True) -> list[str]:
    return broken_rules(text, request, ended=ended)


def test_a_text_that_states_the_facts_keeps_all_rules():
    assert broken(GOOD) == []
    assert broken(GOOD.upper()) == []
    assert broken(GOOD.replace("stainless steel", "stainless\nsteel").removesuffix(".") + "!") == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (GOOD.replace("Brunvale", "Brunvail"), 'it lacks "brunvale kettle"'),
        (GOOD.replace("stainless ", ""), 'it lacks "stainless steel"'),
        (GOOD.removesuffix("."), "it does not end"),
        (f"{GOOD} It weighs 2 kg.", 'it states the number "2", which is not given'),
        (f"{GOOD} It has three speeds.", 'it states the number "three", which is not given'),
        (f"{GOOD} Its lid is of bamboo.", 'it states the material "bamboo", which is not given'),
        (f"{GOOD} It is certified.", 'it states the certificate "certified", which is not given'),
        (f"{GOOD} Made in small batches.", 'it states the origin "made in", which is not given'),
        (f"{GOOD} It relieves stress.", 'it states the health effect "stress", which is not given'),
        (f"{GOOD} It can help you lose weight.", 'it states the health effect "lose weight", which is not given'),
        (f"{GOOD} It comes in size M.", 'it states the size "size m", which is not given'),
        (f"{GOOD} Its handle is brown.", 'it states the color "brown", which is not given'),
        (f"{GOOD} It is long-lasting.", 'it states the property "long lasting", which is not given'),
        (f"{GOOD} Such kettles are robust lamps for a desk.", 'it calls the product a "lamp"'),
        (f"{GOOD} This is a beautiful vase.", 'it calls the product a "vase"'),
        (f"{GOOD} Boil it and pour it out, boil it and pour it in.", 'it repeats "boil it and pour it"'),
        (f"{GOOD} It is perfect.", 'it names the use "perfect", which is not given'),
        (f"{GOOD} Use it for boiling water.", 'it names the use "boiling water", which is not given'),
        (f"{GOOD} It is ready to boil water.", 'it names the use "boil water", which is not given'),
        (f"{GOOD} Whether at work or not.", 'it names the use "whether", which is not given'),
        (GOOD.replace("is cordless", "has a cordless"), 'it puts "cordless" after "has"'),
        (GOOD.replace("It holds 1.7 l", "It has a 1.7 l"), 'it puts "1.7 l" after "has"'),
        (GOOD.replace("is made of stainless", "is stainless"), 'it puts "stainless steel" after "is"'),
        (f"{GOOD} This is a item.", 'it has the wrong article in "a item"'),
        (f"{GOOD} They are here.", "it speaks of one product and of several"),
        (f"Here are they. {GOOD}", "it speaks of one product and of several"),
        (f"Product name: Kettle\n{GOOD}", 'it repeats the request: "Product name:"'),
    ],
)
def test_each_fault_is_named(text: str, rule: str):
    assert rule in broken(text)


@pytest.mark.parametrize(
    ("name", "keywords", "text"),
    [
        ("USB-A Extension Cable", ("2 m",), "Meet the USB-A Extension Cable, a USB-A Extension Cable of 2 m."),
        ("Vitamin A Oil", (), "Here is the Vitamin A Oil."),
        ("Velmo Cream", ("vitamin A and E",), "The Velmo Cream has vitamin A and E."),
        ("Velmo Case", ("orange", "A4"), "The Velmo Case is an orange one, in A4."),
    ],
)
def test_the_words_of_the_shop_are_not_corrected(name: str, keywords: tuple[str, ...], text: str):
    assert broken(text, DescriptionRequest(product_name=name, keywords=keywords)) == []


@pytest.mark.parametrize(
    ("keyword", "wrong"),
    [("orange", "a orange"), ("umbrella", "a umbrella"), ("B-flat", "an b"), ("USB-A", ""), ("unique", "")],
)
def test_the_article_before_a_fact_is_that_of_its_first_letters(keyword: str, wrong: str):
    request = DescriptionRequest(product_name="Velmo Box", keywords=(keyword,))

    rules = broken(f"The Velmo Box has {'an' if keyword == 'B-flat' else 'a'} {keyword} item.", request)

    assert rules == ([f'it has the wrong article in "{wrong}"'] if wrong else [])


def test_a_fact_is_stated_beside_the_name_or_as_a_word_of_it():
    lamp = DescriptionRequest(product_name="Oakhurst Lamp", keywords=("oak",))
    board = DescriptionRequest(product_name="Oak Board", keywords=("oak",))

    assert broken("Meet the Oakhurst Lamp.", lamp) == ['it lacks "oak"']
    assert broken("The Oakhurst Lamp is made of oak.", lamp) == []
    assert broken("Meet the Oak Board.", board) == []
    shade = DescriptionRequest(product_name="Lamp", keywords=("lamp shade",))
    assert broken("The Lamp has a lamp shade.", shade) == []


def test_parts_of_words_are_not_given():
    request = DescriptionRequest(product_name="Velmo Mat", keywords=("a", "red"))

    assert broken("The Velmo Mat is red. It has a cork part.", request) == [
        'it states the material "cork", which is not given'
    ]
    assert broken("The Velmo Mat is red. It has a hundred parts.", request) == [
        'it states the number "hundred", which is not given'
    ]


def test_a_text_that_the_limit_of_tokens_ended_is_refused():
    assert broken(GOOD, ended=False) == ["it does not end"]


def test_a_given_use_may_be_named():
    request = DescriptionRequest(product_name="Velmo Kettle", keywords=("for boiling water", "gift"))

    assert broken("The Velmo Kettle is for boiling water. It is a gift.", request) == []


def test_plain_texts_have_plain_and_given_words_only():
    assert broken_rules(GOOD, KETTLE, ended=True, is_plain=True) == []
    assert broken_rules(f"{GOOD} It sings.", KETTLE, ended=True, is_plain=True) == [
        'it says "sings", which is not given'
    ]
    trays = GOOD.replace("stainless steel", "stainless steels")
    assert broken_rules(trays, KETTLE, ended=True, is_plain=True) == ['it lacks "stainless steel"']


def test_the_grammar_of_other_languages_is_not_judged():
    request = DescriptionRequest(product_name="Velmo Wasserkocher", keywords=("1,7 l",), language="de")

    assert broken("Der Velmo Wasserkocher has a 1,7 l for Tee.", request) == []


def test_given_words_are_no_claims():
    request = DescriptionRequest(
        product_name="Organic Cotton Towel <b>Duo</b>", keywords=("set of 2", "made in Portugal", "durable")
    )
    text = "The Organic Cotton Towel Duo is a set of 2, made in Portugal. The two towels are durable."

    assert broken(text, request) == []
    assert broken(text, DescriptionRequest(product_name="Organic Towel Duo")) != []


def test_other_products_may_stand_beside_the_product():
    request = DescriptionRequest(product_name="Velmo Desk Lamp")

    assert broken("The Velmo Desk Lamp is a lamp for your desk, beside the chair and the vase.", request) == []


def test_a_free_prompt_has_no_facts_to_compare_with():
    assert broken("100% steel", DescriptionRequest(prompt="Say something."), ended=False) == []


def test_a_name_without_visible_characters_is_no_fact():
    request = DescriptionRequest(product_name="\u200b<b></b>", keywords=("quiet", "quiet", "\u200b"))

    assert broken("It is quiet.", request) == []


def test_the_rules_take_linear_time():
    text = "is a " * 20_000 + "\u2019" * 2000
    request = DescriptionRequest(
        product_name="x" * 255, keywords=tuple(f"{number} " + "y" * 60 for number in range(20))
    )

    assert 'it lacks "' + "x" * 255 + '"' in broken(text, request)


def test_the_plain_statement_has_every_fact_in_the_words_of_the_shop():
    assert plain_statement(KETTLE) == "Brunvale Kettle: 1.7 l, stainless steel, cordless."
    assert plain_statement(DescriptionRequest(product_name="Really?")) == "Really?"
    assert plain_statement(DescriptionRequest(product_name="<i>Mug</i>\n two", keywords=("a <b>",))) == "Mug two: a."
