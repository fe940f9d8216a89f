"""Keywords with their grammatical form: real ones, composed parts, figures and invented words."""

from dataclasses import dataclass
from random import Random

from inference.builtin.corpus.invented_words import article, invented, is_held_out
from inference.builtin.corpus.word_lists import (
    ACTIVITIES,
    ADJECTIVE_ENDINGS,
    ADJECTIVES,
    COUNT_ENDINGS,
    HEAD_QUALITIES,
    HEADS,
    MASS,
    MASS_ENDINGS,
    MATERIALS,
    PREDICATES,
    ROOMS,
    UNITS,
)


@dataclass(frozen=True)
class Keyword:
    """A keyword as the shop writes it, and its form: adjective, predicate, count, mass, material, activity or room."""

    text: str
    form: str


def with_article(keyword: Keyword) -> str:
    """Return a noun keyword as it stands in a sentence."""
    return f"{article(keyword.text)} {keyword.text}" if keyword.form == "count" else keyword.text


def plural(noun: str) -> str:
    """Return the plural of a regular noun."""
    if noun.endswith(("s", "x", "sh", "ch")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"


def _composed(random: Random) -> Keyword:
    """Return a part with a quality or a material: "leak-proof lid", "oak handle", "solid brass hinge"."""
    head = random.choice(HEADS)
    roll = random.random()
    if roll < 0.45:
        text = f"{random.choice(HEAD_QUALITIES)} {head}"
    elif roll < 0.85:
        text = f"{random.choice(MATERIALS)} {head}"
    else:
        text = f"{random.choice(HEAD_QUALITIES)} {random.choice(MATERIALS)} {head}"
    if random.random() < 0.2:
        return Keyword(plural(text), "mass")
    return Keyword(text, "count")


def _specification(random: Random) -> Keyword:
    number = random.choice((random.randint(2, 12), random.randint(2, 99), random.randint(1, 40) * 25))
    roll = random.random()
    if roll < 0.6:
        return Keyword(f"{number} {random.choice(UNITS)}", "mass")
    if roll < 0.8:
        return Keyword(f"{number}-year {random.choice(('warranty', 'guarantee'))}", "count")
    return Keyword(
        f"IP{random.randint(20, 69)}" if random.random() < 0.5 else f"{number}% {random.choice(MATERIALS)}", "mass"
    )


def _invented_keyword(random: Random, held_out: bool) -> Keyword:
    roll = random.random()
    if roll < 0.3:
        return Keyword(invented(random, held_out, ADJECTIVE_ENDINGS), "adjective")
    if roll < 0.5:
        return Keyword(invented(random, held_out, MASS_ENDINGS), "mass")
    if roll < 0.6:
        return Keyword(invented(random, held_out, COUNT_ENDINGS), "count")
    if roll < 0.8:
        return Keyword(f"{invented(random, held_out)} {random.choice(HEADS)}", "count")
    word = invented(random, held_out)
    return Keyword(word.capitalize() if random.random() < 0.3 else word, "mass")


def keyword(random: Random, held_out: bool, invented_share: float = 0.25) -> Keyword:
    """Return a keyword of any form. A held-out one is an invented word or a composed phrase that training never
    shows.
    """
    if random.random() < invented_share:
        return _invented_keyword(random, held_out)
    roll = random.random()
    if held_out or roll < 0.34:
        while is_held_out((found := _composed(random)).text) != held_out:
            pass
        return found
    if roll < 0.62:
        return Keyword(random.choice(ADJECTIVES), "adjective")
    if roll < 0.74:
        return Keyword(random.choice(MATERIALS), "material")
    if roll < 0.83:
        return Keyword(random.choice(MASS), "mass")
    if roll < 0.9:
        return Keyword(random.choice(ACTIVITIES), "activity")
    if roll < 0.92:
        return Keyword(random.choice(ROOMS), "room")
    return Keyword(random.choice(PREDICATES), "predicate") if roll < 0.95 else _specification(random)


def is_unseen(text: str) -> bool:
    """Return whether a keyword is an invented word or a composed phrase that training never shows."""
    closed = (ADJECTIVES, MATERIALS, MASS, PREDICATES, ACTIVITIES, ROOMS)
    return is_held_out(text) and not any(text in words for words in closed) and not any(map(str.isdigit, text))
