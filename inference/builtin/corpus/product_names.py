"""Product names: invented words, dictionary words, model numbers and what joins them."""

from dataclasses import dataclass
from random import Random

from inference.builtin.corpus.invented_words import invented, is_held_out
from inference.builtin.corpus.word_lists import NAME_WORDS, SUFFIXES


@dataclass(frozen=True)
class Name:
    """A product's name as written everywhere, and whether it ends in the noun of its kind."""

    text: str
    has_noun: bool


def _model_number(random: Random) -> str:
    letters = "".join(random.choice("ABCDEFGHJKLMNPQRSTVWXZ") for _ in range(random.choice((1, 2, 2, 3))))
    digits = str(random.randint(2, 9999)) if random.random() < 0.4 else str(random.randint(1, 99) * 10)
    return letters + random.choice(("-", " ", "", "-")) + digits


def _brand(random: Random, held_out: bool) -> str:
    """Return one or two words that no dictionary has as a product."""
    roll = random.random()
    word = invented(random, held_out).capitalize()
    if roll < 0.5:
        return word
    other = random.choice(NAME_WORDS).capitalize()
    if roll < 0.6:
        return f"{word} {other}"
    if roll < 0.7:
        return f"{other} {word}"
    if roll < 0.76:
        return f"{word} & {other}" if random.random() < 0.5 else f"{word} {random.choice(SUFFIXES)}"
    if roll < 0.82:
        return word.upper() if random.random() < 0.4 else word + other.lower()
    if roll < 0.88:
        return f"{word} {_model_number(random)}"
    if roll < 0.93:
        return f"{word} {invented(random, held_out).capitalize()}"
    return f"{word}'s {other}" if random.random() < 0.5 else f"{word}-{other}"


def _familiar(random: Random, held_out: bool) -> str:
    """Return a name of dictionary words or a model number; the combination is what may be held out."""
    while True:
        roll = random.random()
        first, second = (random.choice(NAME_WORDS).capitalize() for _ in range(2))
        if roll < 0.35:
            text = f"{first} {second}"
        elif roll < 0.5:
            text = f"{first} & {second}"
        elif roll < 0.65:
            text = first + second.lower()
        elif roll < 0.8:
            text = _model_number(random)
        else:
            text = f"{first} {random.choice((*SUFFIXES, _model_number(random)))}"
        if is_held_out(text) == held_out and first != second:
            return text


def product_name(random: Random, noun: str | None, held_out: bool) -> Name:
    """Return a name; with a noun it usually ends in it, and now and then a suffix follows."""
    text = _brand(random, held_out) if held_out or random.random() < 0.7 else _familiar(random, held_out)
    if noun is not None:
        cased = noun if random.random() < 0.5 else " ".join(word.capitalize() for word in noun.split(" "))
        text = f"{text} {cased}"
        if random.random() < 0.07:
            text = f"{text} {random.choice((*SUFFIXES, _model_number(random)))}"
    roll = random.random()
    if roll < 0.05:
        text = text.lower()
    elif roll < 0.06:
        text = text.upper()
    return Name(text, noun is not None)
