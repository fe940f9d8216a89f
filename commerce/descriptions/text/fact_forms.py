"""English grammar of given facts in a text: each fact has a form, and each place in a sentence takes some forms.

"Removable tray" is a part: "It has a removable tray" is right, "It is removable tray" is not. A list after a colon
takes every form. The form of most facts is guessed from their last word; a fact of an unknown form is never called
wrong, but another text is preferred to it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from commerce.descriptions.text.vocabulary import (
    ADJECTIVE_ENDINGS,
    ADJECTIVES,
    CLAIMS,
    COLOR_WORDS,
    CONTAINERS,
    EITHER_NOUNS,
    INGREDIENTS,
    KIND_NOUNS,
    MASS_NOUNS,
    PART_NOUNS,
    POLICIES,
    UNITS,
)


class FactForm(Enum):
    """Grammatical form of a fact."""

    ADJECTIVE = "adjective"
    COLOR = "color"
    COUNT = "count"  # "set of 4", "limited edition": "it is a ..."
    FIGURE = "figure"
    MATERIAL = "material"
    PART = "part"
    PHRASE = "phrase"  # "made in Italy", "for children"
    RATING = "rating"  # "IP65"
    SIZE = "size"  # "size M"
    UNKNOWN = "unknown"


class Slot(Enum):
    """Place of a fact in its sentence, by the words before it."""

    NONE = ""
    BEING = "is"
    COMING_AS = "comes as"
    COMING_IN = "comes in"
    HAVING = "has"
    LIST = ":"
    MADE = "is made of"
    MEASURING = "measures"
    RATED = "is rated at"


# Forms that a frame takes. Those with an unknown form, and all forms in a list, are right anywhere but in `measures`.
FITTING = {
    Slot.BEING: {FactForm.ADJECTIVE, FactForm.COLOR, FactForm.PHRASE, FactForm.RATING, FactForm.SIZE},
    Slot.COMING_AS: set(),
    Slot.COMING_IN: {FactForm.COLOR, FactForm.SIZE, FactForm.MATERIAL},
    Slot.HAVING: {FactForm.PART},
    Slot.MADE: {FactForm.MATERIAL},
    Slot.MEASURING: {FactForm.FIGURE},
    Slot.RATED: {FactForm.FIGURE, FactForm.RATING},
}  # fmt: skip
_WRITING_ORDER = (
    FactForm.ADJECTIVE, FactForm.MATERIAL, FactForm.COLOR, FactForm.PART, FactForm.FIGURE, FactForm.SIZE,
    FactForm.COUNT, FactForm.PHRASE, FactForm.RATING, FactForm.UNKNOWN,
)  # fmt: skip
_CLAUSE_FORMS = {FactForm.PART, FactForm.ADJECTIVE, FactForm.MATERIAL, FactForm.COLOR, FactForm.PHRASE}
_QUALITIES = {FactForm.ADJECTIVE, FactForm.PHRASE}
_WITH_ARTICLE = {FactForm.PART, FactForm.COUNT, FactForm.UNKNOWN}
_VERBS = {
    "is": Slot.BEING, "are": Slot.BEING, "has": Slot.HAVING, "have": Slot.HAVING, "with": Slot.HAVING,
    "features": Slot.HAVING, "feature": Slot.HAVING, "offers": Slot.HAVING, "offer": Slot.HAVING,
    "includes": Slot.HAVING, "include": Slot.HAVING, "measures": Slot.MEASURING, "measure": Slot.MEASURING,
    "rated": Slot.RATED, "made": Slot.MADE,
}  # fmt: skip
_AFTER_COMING = {"in": Slot.COMING_IN, "as": Slot.COMING_AS}
_CLAUSE_WORDS = frozenset({"and", "or", "with", "for", "in", "on", "at", "of", "as", "is", "are", "has", "have", "to"})
_COUNTS = frozenset({"no", "two", "three", "four", "five", "six", "eight", "ten"})
_ARTICLES = frozenset({"a", "an", "the"})
_FACT = "\x00"
_TOKEN = re.compile(r"\x00\d+\x00|[\w'-]+|[.:;,!?()]")
_LENGTH = re.compile(r"\d\s*(?:mm|cm|m|km|inches|ft)\Z")
_AMOUNT = re.compile(r"\d\s*(?:inch|ml|cl|l|g|kg|oz|lb)\Z")
_POWER = re.compile(r"\d\s*(?:w|kw|v|mah|ah|wh|k|lumens|lm|ghz|mhz|hz|atm|bar)\Z")
_COUNT = re.compile(r"\A(?:set|pack|pair|box|bundle) of \d")
_RATING = re.compile(r"\A(?:ip|spf ?|uv ?|usb ?)\d[\w.]*\Z")
_PREPOSITION = re.compile(r"\A(?:for|from|in|without) ")
_PHRASE = re.compile(r"\A(?:(?:hand)?made (?:in|of|from|by|with)|designed|assembled|produced|for|from|in|without) ")


@dataclass(frozen=True)
class FactPlace:
    """Place of a given fact in a text.

    has_article: "a" or "an" is before it. follows_and: "and" is before it and its article. has_noun: the next word
    belongs to it.
    """

    fact: str
    form: FactForm
    frame: Slot
    has_article: bool
    follows_and: bool
    has_noun: bool


def form_of(fact: str) -> FactForm:
    """Return the form of a fact in lower case."""
    words = fact.split()
    if not words or "%" in fact:
        return FactForm.UNKNOWN
    last, head = words[-1], fact.partition(" of ")[0].split()[-1]
    if _COUNT.match(fact) or last in KIND_NOUNS:
        return FactForm.COUNT
    if last == "included":
        return FactForm.PART
    if words[0] in ("size", "sizes"):
        return FactForm.SIZE
    if _RATING.match(fact):
        return FactForm.RATING
    if _PHRASE.match(fact):
        return FactForm.PHRASE
    if last in UNITS or last.isdecimal():
        return FactForm.FIGURE
    if last.endswith("en") and last in ADJECTIVES:
        return FactForm.ADJECTIVE
    if last in INGREDIENTS or any(material == fact or fact.endswith(f" {material}") for material in CLAIMS["material"]):
        return FactForm.MATERIAL
    if all(word in COLOR_WORDS for word in words):
        return FactForm.COLOR
    if singular(head) in PART_NOUNS or head in PART_NOUNS | MASS_NOUNS | EITHER_NOUNS:
        return FactForm.PART
    stem = last.rpartition("-")[2]
    if last in ADJECTIVES or stem in ADJECTIVES or (last.endswith(ADJECTIVE_ENDINGS) and len(last) > 3):
        return FactForm.ADJECTIVE
    return FactForm.UNKNOWN


def in_writing_order(facts: tuple[str, ...]) -> tuple[str, ...]:
    """Return facts with those of one form together, and those that fit no clause at the end, where a list has them."""
    return tuple(sorted(facts, key=lambda fact: _writing_order(fact.casefold())))


def _writing_order(fact: str) -> int:
    form = form_of(fact)
    if form is FactForm.FIGURE and not (_LENGTH.search(fact) or _POWER.search(fact)):
        return len(_WRITING_ORDER)
    return _WRITING_ORDER.index(form) + (form is FactForm.PART and fact.split()[-1] in POLICIES)


def fact_places(text: str, name: str, facts: list[str]) -> list[FactPlace]:
    """Return where the facts stand in a text. All are in lower case."""
    masked = text.replace(name, " it ") if name else text
    for index, fact in sorted(enumerate(facts), key=lambda pair: len(pair[1]), reverse=True):
        masked = re.sub(rf"(?<![\w\x00]){re.escape(fact)}(?![\w\x00])", f" {_FACT}{index}{_FACT} ", masked)
    tokens = _TOKEN.findall(masked)
    places, frame, before = [], Slot.NONE, ""
    for index, token in enumerate(tokens):
        after = tokens[index + 1] if index + 1 < len(tokens) else "."
        if token.startswith(_FACT):
            fact = facts[int(token.strip(_FACT))]
            has_noun = after[0].isalpha() and after not in _CLAUSE_WORDS
            is_phrase = frame is not Slot.LIST and _PREPOSITION.match(fact) and _ends_phrase(before)
            own = Slot.NONE if is_phrase else frame
            has_article = before in ("a", "an")
            follows_and = "and" in tokens[max(0, index - 2) : index][0 if has_article else -1 :]
            places.append(FactPlace(fact, form_of(fact), own, has_article, follows_and, has_noun))
        frame = _next_frame(frame, before, token, after)
        before = token
    return places


def wrong_forms(places: list[FactPlace]) -> Iterator[FactPlace]:
    """Yield the places that do not take their fact."""
    return (place for place in places if not _fits(place))


def form_penalty(places: list[FactPlace]) -> int:
    """Return how much worse facts stand than they could: in a list without need, in a clause by a guess, or twice."""
    repeated = len(places) - len({place.fact for place in places})
    return 2 * repeated + sum(map(_penalty, places))


def _penalty(place: FactPlace) -> int:
    form, frame, fact = place.form, place.frame, place.fact
    if frame is Slot.LIST:
        return int(form in _CLAUSE_FORMS)
    if frame is Slot.MEASURING:  # 5 l are held, and 5 kg weighed
        return 0 if _LENGTH.search(fact) else 3
    if frame is Slot.COMING_IN and form is FactForm.MATERIAL:  # "comes in rose gold", but "is made of oak"
        return int(fact.split()[-1] not in COLOR_WORDS)
    if frame is Slot.BEING and (
        form in (FactForm.RATING, FactForm.SIZE) or (place.follows_and and fact.startswith("for "))
    ):
        return 1
    if frame is Slot.BEING and form is FactForm.FIGURE:
        return 2
    if form is FactForm.PART:
        return 3 * place.has_noun + (place.has_article and fact.split()[-1] in MASS_NOUNS)
    return (1 + place.has_article) * (form is FactForm.UNKNOWN)


def joins_unlike(places: list[FactPlace]) -> bool:
    """Return whether "and" joins facts of unlike kinds: "for travel and two batteries", "30-day returns and a lid"."""
    return any(
        first.frame is second.frame
        and second.frame in (Slot.LIST, Slot.HAVING)
        and second.follows_and
        and _likeness(first) != _likeness(second)
        for first, second in pairwise(places)
    )


def _likeness(place: FactPlace) -> tuple[bool, bool]:
    """Return whether a fact is a quality, and whether it is a promise of the shop."""
    return place.form in _QUALITIES, place.fact.split()[-1] in POLICIES


def _fits(place: FactPlace) -> bool:
    form, frame, fact = place.form, place.frame, place.fact
    if frame in (Slot.LIST, Slot.NONE) or place.has_noun:
        return True
    if frame is Slot.MEASURING:
        return bool(_LENGTH.search(fact) or _AMOUNT.search(fact))
    if frame is Slot.RATED:
        return form is FactForm.RATING or bool(_POWER.search(fact))
    if frame is Slot.BEING and fact.startswith("up to "):
        return True
    if place.has_article and form not in _WITH_ARTICLE:
        return False
    if form is FactForm.UNKNOWN:
        return frame is not Slot.MADE or not fact[:1].isdigit()
    if frame is Slot.HAVING and form is FactForm.PART:
        return place.has_article in _articles(fact)
    if frame is Slot.HAVING and form is FactForm.FIGURE:
        return False
    if frame is Slot.COMING_IN and form is FactForm.PART:
        return place.has_article and fact.split()[-1] in CONTAINERS
    if form is FactForm.COUNT:
        return place.has_article and frame in (Slot.BEING, Slot.COMING_AS, Slot.COMING_IN)
    return form in FITTING[frame]


def _articles(fact: str) -> tuple[bool, ...]:
    """Return whether "a" may stand before a part, and whether it may be without: it must not before plurals."""
    head, (first, second, *_) = fact.partition(" of ")[0].split()[-1], [*fact.split(), "", ""]
    is_plural = (head.endswith("s") and not head.endswith("ss")) or head == "included"
    is_figure = first[0].isdigit() and "-" not in first
    if is_plural or first in _COUNTS or (is_figure and second not in UNITS):
        return (False,)
    return (True, False) if head in EITHER_NOUNS | MASS_NOUNS or is_figure else (True,)


def _ends_phrase(word: str) -> bool:
    """Return whether "for children" may follow, as in "made of oak for children" and "made for children"."""
    return word == "made" or word not in _CLAUSE_WORDS | _VERBS.keys() | _ARTICLES


def _next_frame(frame: Slot, before: str, word: str, after: str) -> Slot:
    """Return the frame after a word. before, after: the words beside it."""
    if word in (".", "!", "?", ";"):
        return Slot.NONE
    if word == ":":
        return Slot.LIST
    if before in ("comes", "come", "available") and word in _AFTER_COMING:
        return _AFTER_COMING[word]
    if before == "made" and word == "with":
        return Slot.MADE
    if word == "in" and after.startswith(_FACT) and frame in (Slot.MADE, Slot.HAVING, Slot.MEASURING):
        return Slot.COMING_IN
    if word == "," and frame in (Slot.MADE, Slot.MEASURING):
        return Slot.NONE
    return _VERBS.get(word, frame)


def singular(word: str) -> str:
    """Return a regular plural without its ending."""
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
