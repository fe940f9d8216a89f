"""The corpus, made and never stored: example number n of a seed is the same on every machine.

Import `Example` and `draw_example` for training, `draw_case` for measuring.
"""

from dataclasses import dataclass
from random import Random

from inference.builtin.corpus.invented_words import is_held_out
from inference.builtin.corpus.keywords import Keyword, keyword
from inference.builtin.corpus.product_kinds import ANYTHING, KINDS, Kind
from inference.builtin.corpus.product_names import product_name
from inference.builtin.corpus.prompts import ANOTHER, GREETINGS, SHORTER, SYSTEMS, request
from inference.builtin.corpus.realizer import ProductFacts, write_description
from inference.builtin.corpus.templates import TONES

LENGTHS = ("short", "medium", "long")
KEYWORD_COUNTS = (0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 6, 6, 7, 8, 10)


@dataclass(frozen=True)
class Example:
    """A conversation as (role, content) turns, ending with the assistant's, and what its answers have to copy."""

    turns: tuple[tuple[str, str], ...]
    copied: tuple[str, ...] = ()


@dataclass(frozen=True)
class DescriptionCase:
    """A product never seen in training, with the request for its description."""

    product: ProductFacts
    prompt: str
    tone: str


def _noun_in_text(random: Random, kind: Kind, noun: str) -> str:
    """Return the noun that the text uses: the name's own, or the plainer one that it ends in."""
    plainer = [other for other in kind.nouns if noun != other and noun.endswith(f" {other}")]
    return random.choice(plainer) if plainer and random.random() < 0.6 else noun


def draw_product(
    random: Random, held_out: bool = False, counts: tuple[int, ...] = KEYWORD_COUNTS, invented: float = 0.25
) -> ProductFacts:
    """Return a product of any kind, with keywords of any form; a held-out one never appears in training."""
    kind = random.choice(KINDS) if random.random() < 0.78 else ANYTHING
    noun = random.choice(kind.nouns)
    name = product_name(random, None if kind is ANYTHING else noun, held_out)
    count = random.choice(counts)
    while True:
        keywords: dict[str, Keyword] = {}
        while len(keywords) < count:
            found = keyword(random, held_out and random.random() < 0.5, invented)
            if found.text.lower() not in name.text.lower():
                keywords[found.text.lower()] = found
        if count < 2 or is_held_out(",".join(sorted(keywords))) == held_out:
            break
    return ProductFacts(name.text, kind, _noun_in_text(random, kind, noun), tuple(keywords.values()))


def _ask(random: Random, product: ProductFacts, tone: str | None, length: str | None) -> str:
    return request(random, product.name, [keyword.text for keyword in product.keywords], tone, length)


def _system(random: Random) -> tuple[tuple[str, str], ...]:
    return (("system", random.choice(SYSTEMS)),) if random.random() < 0.5 else ()


def _chat(random: Random) -> Example:
    said, answer = random.choice(GREETINGS).split("|")
    if random.random() < 0.5:
        said = said.capitalize()
    if random.random() < 0.3:
        said = said.rstrip("?") + random.choice(("!", ".", "?", ""))
    return Example((*_system(random), ("user", said), ("assistant", answer)))


def _description(random: Random, counts: tuple[int, ...], invented: float) -> Example:
    product = draw_product(random, counts=counts, invented=invented)
    tone = random.choice(TONES) if random.random() < 0.6 else None
    length = random.choice(LENGTHS) if random.random() < 0.3 else None
    asked = _ask(random, product, tone, length)
    copied = (product.name, *(keyword.text for keyword in product.keywords))
    told = tone if tone and tone in asked.lower() else random.choice(("plain", "plain", "friendly"))
    size = length if length and length in asked.lower() else "medium"
    turns = (*_system(random), ("user", asked), ("assistant", write_description(product, told, size, random)))
    if random.random() > 0.05:
        return Example(turns, copied)
    follow, size = (random.choice(SHORTER), "short") if random.random() < 0.5 else (random.choice(ANOTHER), "medium")
    return Example((*turns, ("user", follow), ("assistant", write_description(product, told, size, random))), copied)


def draw_example(random: Random, copy_share: float = 0.15) -> Example:
    """Return a training conversation. `copy_share` of them are about many invented keywords, to teach copying."""
    roll = random.random()
    if roll < 0.02:
        return _chat(random)
    if roll < 0.02 + copy_share:
        return _description(random, (3, 4, 5, 6, 7, 8, 9, 10, 12, 14), 0.8)
    return _description(random, KEYWORD_COUNTS, 0.3)


def draw_case(random: Random) -> DescriptionCase:
    """Return a held-out product with one to five keywords, asked for as the shop asks."""
    product = draw_product(random, held_out=True, counts=(1, 2, 3, 4, 5))
    tone = random.choice(TONES)
    asked = _ask(random, product, tone if random.random() < 0.7 else None, None)
    return DescriptionCase(product, asked, tone)


def _query(random: Random, product: ProductFacts) -> str:
    """Return a short way to speak of a product: its name, its keywords, a search, or a whole request."""
    words = [word.text for word in product.keywords]
    roll = random.random()
    if not words or roll < 0.15:
        return product.name
    if roll < 0.3:
        return f"{product.name}. Keywords: {', '.join(words)}"
    if roll < 0.4:
        return ", ".join((product.name, *words))
    if roll < 0.55:
        return f"{product.name}: {', '.join(words)}"
    if roll < 0.7:
        return f"{' '.join(random.sample(words, min(3, len(words))))} {product.noun}"
    return _ask(random, product, None, None)


def draw_pair(random: Random, held_out: bool = False) -> tuple[str, str]:
    """Return a query and a text of the same product; the query of a held-out one is its name and keywords."""
    product = draw_product(random, held_out)
    text = write_description(product, random.choice(TONES), random.choice(LENGTHS), random)
    if held_out:
        return ", ".join((product.name, *(word.text for word in product.keywords))), text
    if random.random() < 0.15:
        return write_description(product, random.choice(TONES), "medium", random), text
    return _query(random, product), text
