"""Score of a text that keeps the rules, by what could be better. It orders draws, so that the best is shown.

Each fault was found by readers who would not have published a text for it. All of it is English.
"""

import re
from itertools import pairwise

from commerce.descriptions.text.fact_forms import fact_places, form_penalty, joins_promise, singular
from commerce.descriptions.text.plain_text import plain_text
from commerce.descriptions.text.prompts import DescriptionRequest, is_english
from commerce.descriptions.text.rules import FACT_MARK, given_texts, normal, unknown_words, without, words_of
from commerce.descriptions.text.vocabulary import KINDS, MASS_PRODUCTS, NAME_SUFFIXES, PAIRS, SINGULAR_WITH_S

_NAME = "\x01"
_ONE_VERBS = "comes|features|has|holds|is|lasts|measures|offers|weighs"
_MANY_VERBS = "are|come|feature|have|hold|last|measure|offer|weigh"
_VERBS = f"{_ONE_VERBS}|{_MANY_VERBS}|made"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_RUN_ON = re.compile(
    rf" and (?:{_VERBS}) [^.!?]{{0,200}} and (?:{_VERBS}) "
    rf"| (comes?) [^.!?]{{0,200}} and \1 "
    rf"|rated at\s+{FACT_MARK}\s+and "
    rf"|\b(\w{{3,}})\s+{FACT_MARK}\s+and \2 "
)
_WRONG_PHRASE = re.compile(r"\bwho (?:are \w+|here\b)|\bfind the (?!details)\w+|\byou look like\b|\Athere (?:is|are)\b")
_NO_ARTICLE = re.compile(
    rf"(?:\A|[.!?:]|\b(?:at|discover|found|introduce|is|meet|met|offer|present|seen|to|you))\s+{_NAME}"
)
_ONE = re.compile(
    rf"(?:\A|[.!?] )(?:it|this) (?:{_ONE_VERBS})\b|\b(?:here|this) is (?!our\b)|{_NAME}\s+(?:{_ONE_VERBS})\b"
)
_MANY = re.compile(rf"(?:\A|[.!?] )(?:they|these) \w|\bhere are |{_NAME}\s+(?:{_MANY_VERBS})\b")
_HOLDS = re.compile(r"\bholds? \s*\x00")
_AFTER_KIND = re.compile(r" (?:for|from|in|of|with|without) ")


def awkwardness(text: str, request: DescriptionRequest) -> int:
    """Return how much a text that keeps the rules could be better: 0 for one that a shop owner takes at once."""
    if not is_english(request.language):
        return 0
    given, name, written = given_texts(request), normal(request.product_name), normal(text)
    places = fact_places(written, name, [fact for fact in given if fact != name])
    rest = without(written, given, name=name, name_mark=_NAME)
    faults = {
        "the name in other capitals": 3 * (not _has_as_given(text, request.product_name)),
        "facts in other capitals": sum(not _has_as_given(text, fact[1:]) for fact in request.keywords),
        "a wrong phrase": 4 * bool(_WRONG_PHRASE.search(rest)),
        "the wrong number": 4 * _has_wrong_number(rest, name),
        "the name again and again": max(0, rest.count(_NAME) - 2),
        "no article": 2 * (_takes_article(name) and bool(_NO_ARTICLE.search(rest))),
        "what is used up holds": 2 * (bool(_HOLDS.search(rest)) and not MASS_PRODUCTS.isdisjoint(words_of(name)[-1:])),
        "sentences that begin alike": _monotony(rest),
        "a promise joined to a part": 3 * joins_promise(places),
        "a run-on sentence": 2 * bool(_RUN_ON.search(rest)),
        "other words": 2 * len(set(unknown_words(rest, set(words_of(" ".join(given)))))),
        "facts out of place": form_penalty(places),
    }
    return sum(faults.values())


def _has_as_given(text: str, given: str) -> bool:
    """Return whether the text has the words as the shop writes them, but for a capital at the start of a sentence."""
    given, written = (" ".join(plain_text(each).split()) for each in (given, text))
    return given in written or given[:1].upper() + given[1:] in written


def _takes_article(name: str) -> bool:
    words = words_of(name)
    return len(words) > 1 and words[0] != "the" and MASS_PRODUCTS.isdisjoint(words)


def _has_wrong_number(rest: str, name: str) -> bool:
    """Return whether a text speaks of "it" where the product is several, or of "they" where it is one."""
    number = _is_many(name)
    return bool((number is True and _ONE.search(rest)) or (number is False and _MANY.search(rest)))


def _is_many(name: str) -> bool | None:
    """Return whether a product is several, as shoes are, by its name in lower case. None if its name does not say."""
    words = words_of(_AFTER_KIND.split(name)[0])
    while len(words) > 1 and (words[-1] in NAME_SUFFIXES or words[-1].isdecimal()):
        words.pop()
    plural = [word for word in words if _is_plural(word)]
    if words and (words[-1] in plural or any(word in PAIRS or singular(word) in KINDS for word in plural)):
        return True
    return None if plural or not words else False


def _is_plural(word: str) -> bool:
    return word in PAIRS or (
        len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) and word not in SINGULAR_WITH_S
    )


def _monotony(rest: str) -> int:
    sentences = [sentence.split() for sentence in _SENTENCE_END.split(rest)]
    starts = [words[:2] for words in sentences if len(words) > 1]
    return sum(first == second for first, second in pairwise(starts))
