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
    MATERIAL_NOUNS,
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
    BEING_FOR = "is for"
    COMING_AS = "comes as"
    COMING_IN = "comes in"
    COMING_IN_SIZE = "comes in a size of"
    HAVING = "has"
    HOLDING = "holds"
    LASTING = "lasts"
    LIST = ":"
    MADE = "is made of"
    MADE_WITH = "is made with"
    MEASURING = "measures"
    RATED = "is rated at"
    WEIGHING = "weighs"


# Forms that a frame takes. An unknown form, and all forms in a list, are right in any frame without a unit.
FITTING = {
    Slot.BEING: {FactForm.ADJECTIVE, FactForm.COLOR, FactForm.PHRASE, FactForm.RATING, FactForm.SIZE},
    Slot.BEING_FOR: {FactForm.PHRASE},
    Slot.COMING_AS: set(),
    Slot.COMING_IN: {FactForm.COLOR, FactForm.SIZE, FactForm.MATERIAL},
    Slot.HAVING: {FactForm.PART},
    Slot.MADE: {FactForm.MATERIAL},
    Slot.MADE_WITH: {FactForm.MATERIAL, FactForm.PART},
}  # fmt: skip
_WRITING_ORDER = (
    FactForm.ADJECTIVE, FactForm.MATERIAL, FactForm.COLOR, FactForm.SIZE, FactForm.COUNT, FactForm.FIGURE,
    FactForm.RATING, FactForm.PART, FactForm.UNKNOWN, FactForm.PHRASE,
)  # fmt: skip
_WITH_ARTICLE = {FactForm.PART, FactForm.COUNT, FactForm.UNKNOWN}
_VERBS = {
    "is": Slot.BEING, "are": Slot.BEING, "has": Slot.HAVING, "have": Slot.HAVING, "with": Slot.HAVING,
    "features": Slot.HAVING, "feature": Slot.HAVING, "offers": Slot.HAVING, "offer": Slot.HAVING,
    "includes": Slot.HAVING, "include": Slot.HAVING, "measures": Slot.MEASURING, "measure": Slot.MEASURING,
    "weighs": Slot.WEIGHING, "weigh": Slot.WEIGHING, "holds": Slot.HOLDING, "hold": Slot.HOLDING,
    "lasts": Slot.LASTING, "last": Slot.LASTING, "rated": Slot.RATED, "made": Slot.MADE,
}  # fmt: skip
_AFTER_COMING = {"in": Slot.COMING_IN, "as": Slot.COMING_AS}
_CLAUSE_WORDS = frozenset({"and", "or", "with", "for", "in", "on", "at", "of", "as", "is", "are", "has", "have", "to"})
_COUNTS = frozenset({"no", "two", "three", "four", "five", "six", "eight", "ten"})
_ARTICLES = frozenset({"a", "an", "the"})
_FACT = "\x00"
_TOKEN = re.compile(r"\x00\d+\x00|[\w'-]+|[.:;,!?()]")
# Units that a frame takes, in the order in which the figures are written.
_UNITS = {
    Slot.MEASURING: re.compile(r"\d\s*(?:mm|cm|m|km|inches|ft)\Z"),
    Slot.HOLDING: re.compile(r"\d\s*(?:ml|cl|dl|l|gb|tb)\Z|\Aup to "),
    Slot.WEIGHING: re.compile(r"\d\s*(?:mg|g|kg|oz|lb|g/m2)\Z"),
    Slot.RATED: re.compile(r"\d\s*(?:w|kw|v|mah|ah|wh|k|lumens|lm|ghz|mhz|hz|atm|bar|°c)\Z|\A\d+(?:p|x\d+)\Z"),
    Slot.LASTING: re.compile(r"\d (?:hours|minutes|days|years)\Z"),
    Slot.BEING_FOR: re.compile(r"\Aages |(?:players|persons|months)\Z"),
    Slot.BEING: re.compile(r"\d carat\Z"),
}  # fmt: skip
_SIZED = re.compile(r"\d\s*(?:ml|l|g|kg)\Z")  # of what is used up: "comes in a size of 500 ml"
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
    if last in INGREDIENTS | MATERIAL_NOUNS or any(
        material == fact or fact.endswith(f" {material}") for material in CLAIMS["material"]
    ):
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
    """Return facts with those of one form together, and those at the end that stand in a sentence of their own."""
    return tuple(sorted(facts, key=lambda fact: _writing_order(fact.casefold())))


def _writing_order(fact: str) -> tuple[int, int]:
    if fact.split()[-1:] and fact.split()[-1] in POLICIES | KIND_NOUNS:
        return (len(_WRITING_ORDER), 0)
    units = [index for index, unit in enumerate(_UNITS.values()) if unit.search(fact)]
    return (_WRITING_ORDER.index(form_of(fact)), min(units, default=0))


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
    """Return how much worse facts stand than they could: in a list, in a clause by a guess, or twice."""
    repeated = len(places) - len({place.fact for place in places})
    return 2 * repeated + sum(map(_penalty, places))


def _penalty(place: FactPlace) -> int:
    form, frame, fact = place.form, place.frame, place.fact
    if frame is Slot.LIST:
        return 3
    if frame is Slot.NONE:  # "meet it, a lid", but "a quiet kettle" and "made of oak for children"
        return 3 * (form is not FactForm.ADJECTIVE and not place.has_noun and not _PREPOSITION.match(fact))
    if unit := next((slot for slot, units in _UNITS.items() if units.search(fact)), None):
        return 3 * (frame not in (unit, Slot.COMING_IN_SIZE) and not place.has_noun)
    if frame is Slot.MEASURING or (frame is Slot.MADE and fact.split()[-1] in INGREDIENTS):
        return 3
    if "%" in fact:
        return 2 * (frame not in (Slot.BEING, Slot.MADE, Slot.MADE_WITH))
    if frame is Slot.COMING_IN and form is FactForm.MATERIAL:  # "comes in rose gold", but "is made of oak"
        return 3 * (fact.split()[-1] not in COLOR_WORDS)
    if frame is Slot.BEING and (
        form in (FactForm.RATING, FactForm.SIZE) or (place.follows_and and fact.startswith("for "))
    ):
        return 1
    if form is FactForm.PART:
        return 3 * place.has_noun + 2 * (place.has_article and fact.split()[-1] in MASS_NOUNS)
    return (1 + place.has_article) * (form is FactForm.UNKNOWN)


def joins_promise(places: list[FactPlace]) -> bool:
    """Return whether "and" joins a promise of the shop to something else: "30-day returns and a lid"."""
    return any(second.follows_and and _is_promise(first) != _is_promise(second) for first, second in pairwise(places))


def _is_promise(place: FactPlace) -> bool:
    return place.fact.split()[-1] in POLICIES


def _fits(place: FactPlace) -> bool:
    form, frame, fact = place.form, place.frame, place.fact
    if frame in (Slot.LIST, Slot.NONE) or place.has_noun:
        return True
    if frame is Slot.COMING_IN_SIZE:
        return bool(_SIZED.search(fact))
    if frame in _UNITS and _UNITS[frame].search(fact):
        return True
    if frame is Slot.MEASURING:
        return form is FactForm.FIGURE and not _UNITS[Slot.RATED].search(fact)
    if frame is Slot.RATED:
        return form is FactForm.RATING
    if frame in (Slot.HOLDING, Slot.WEIGHING, Slot.LASTING):
        return False
    if place.has_article and form not in _WITH_ARTICLE:
        return False
    if form is FactForm.UNKNOWN:
        return frame not in (Slot.MADE, Slot.MADE_WITH) or not fact[:1].isdigit() or "%" in fact
    if frame is Slot.HAVING and form is FactForm.PART:
        return place.has_article in _articles(fact)
    if frame is Slot.HAVING and form is FactForm.FIGURE:
        return False
    if frame is Slot.COMING_IN and form is FactForm.PART:
        return place.has_article in _articles(fact) and (fact[0].isdigit() or fact.split()[-1] in CONTAINERS)
    if frame is Slot.HAVING and form is FactForm.RATING:
        return fact.startswith("spf")
    if frame is Slot.HAVING and form is FactForm.MATERIAL:
        return fact.endswith("coir")
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
        return Slot.MADE_WITH
    if before == "size" and word == "of":
        return Slot.COMING_IN_SIZE
    if word == "for" and before in ("is", "are", "made"):
        return Slot.BEING_FOR
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
