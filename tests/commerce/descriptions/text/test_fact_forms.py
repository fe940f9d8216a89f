"""The form of a fact, and the places that take it."""

import pytest

from commerce.descriptions.text.fact_forms import FactForm, fact_places, form_of, wrong_forms

pytestmark = pytest.mark.no_database


@pytest.mark.parametrize(
    ("form", "facts"),
    [
        (FactForm.ADJECTIVE, ["quiet", "leak-proof", "bpa-free", "machine-washable", "gots certified", "wooden"]),
        (FactForm.COLOR, ["navy blue", "black", "dusty pink"]),
        (FactForm.COUNT, ["set of 4", "pack of 10", "bestseller", "limited edition"]),
        (FactForm.FIGURE, ["30 cm", "20 x 30 cm", "2000 w", "5 l", "90 g/m2"]),
        (FactForm.MATERIAL, ["oak", "stainless steel", "organic cotton", "rose gold", "shea butter"]),
        (
            FactForm.PART,
            ["removable tray", "drip-free spout", "lid", "two pockets", "notes of honey", "batteries included"],
        ),
        (FactForm.PHRASE, ["made in portugal", "for children", "handmade in spain"]),
        (FactForm.RATING, ["ip65", "spf 30"]),
        (FactForm.SIZE, ["size m", "sizes s to xl"]),
        (FactForm.UNKNOWN, ["", "10x42", "\u4fdd\u6e29"]),
    ],
)
def test_the_form_is_that_of_the_words(form: FactForm, facts: list[str]):
    assert {fact: form_of(fact) for fact in facts} == dict.fromkeys(facts, form)


@pytest.mark.parametrize(
    ("sentence", "fact"),
    [
        ("it is quiet and has a timer.", "quiet"),
        ("it has a drip-free spout.", "drip-free spout"),
        ("it comes with a lid and two pockets.", "two pockets"),
        ("meet it, a quiet lamp with a lid.", "quiet"),
        ("it is made of oak.", "oak"),
        ("it comes in black.", "black"),
        ("it comes as a set of 4.", "set of 4"),
        ("it measures 30 cm.", "30 cm"),
        ("it is rated at 2000 w.", "2000 w"),
        ("details: 5 l, black and lid.", "5 l"),
        ("it has 70% cocoa.", "70% cocoa"),
        ("it is a bestseller.", "bestseller"),
        ("it has a 3 cm heel.", "3 cm heel"),
        ("it has a floral aroma.", "floral aroma"),
        ("it has floral aroma.", "floral aroma"),
        ("it weighs 90 g/m2.", "90 g/m2"),
        ("it comes in a size of 500 ml.", "500 ml"),
        ("it comes in a 15 inch size.", "15 inch"),
        ("it is made with no added sugar.", "no added sugar"),
        ("it comes in a gift box.", "gift box"),
        ("it comes with coconut coir.", "coconut coir"),
        ("it is for ages 3 and up.", "ages 3 and up"),
    ],
)
def test_a_fact_in_its_place_is_right(sentence: str, fact: str):
    assert list(wrong_forms(fact_places(sentence, "velmo", [fact]))) == []


@pytest.mark.parametrize(
    ("sentence", "facts"),
    [
        ("it is made of oak for children.", ["oak", "for children"]),
        ("it is made for children and is quiet.", ["for children", "quiet"]),
        ("it comes in black for children.", ["black", "for children"]),
        ("it has a removable tray for small rooms.", ["removable tray", "for small rooms"]),
        ("it is quiet, without a cord.", ["quiet", "without a cord"]),
        ("it is made of cotton, machine washable and black.", ["cotton", "machine washable", "black"]),
        ("it measures 30 cm in black.", ["30 cm", "black"]),
        ("it measures 30 cm in height and 5 cm in width.", ["30 cm", "5 cm"]),
        ("it has a lid in black.", ["lid", "black"]),
        ("it is made of cotton in size m.", ["cotton", "size m"]),
        ("it is a limited edition.", ["limited edition"]),
        ("it comes with batteries included.", ["batteries included"]),
    ],
)
def test_facts_after_each_other_are_right(sentence: str, facts: list[str]):
    assert list(wrong_forms(fact_places(sentence, "velmo", facts))) == []


@pytest.mark.parametrize(
    ("sentence", "fact"),
    [
        ("it is drip-free spout.", "drip-free spout"),
        ("it features drip-free spout.", "drip-free spout"),
        ("it has a quiet.", "quiet"),
        ("it is made of black.", "black"),
        ("it is made of a lid.", "lid"),
        ("it is quiet and 30 cm.", "30 cm"),
        ("it measures 10 w.", "10 w"),
        ("it measures quiet.", "quiet"),
        ("it has a set of 4.", "set of 4"),
        ("it has a 10 w.", "10 w"),
        ("it is rated at 30 cm.", "30 cm"),
        ("it comes in lid.", "lid"),
        ("it has made in portugal.", "made in portugal"),
        ("it has for children.", "for children"),
        ("it is made of for children.", "for children"),
        ("it is a for children.", "for children"),
        ("it is limited edition.", "limited edition"),
        ("it is batteries included.", "batteries included"),
        ("it is a usb-c port.", "usb-c port"),
        ("it is made with 10x42.", "10x42"),
        ("it weighs 5 l.", "5 l"),
        ("it holds 40 hours.", "40 hours"),
        ("it comes in a size of 40 cm.", "40 cm"),
        ("it comes with oak.", "oak"),
        ("it comes with a ceramic legs.", "ceramic legs"),
        ("it has a 3 speeds.", "3 speeds"),
        ("it offers a slim-fit.", "slim-fit"),
    ],
)
def test_a_fact_out_of_its_place_is_wrong(sentence: str, fact: str):
    assert [place.fact for place in wrong_forms(fact_places(sentence, "velmo", [fact]))] == [fact]
