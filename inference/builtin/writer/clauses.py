"""English clauses of given facts: "is made of oak", "weighs 500 g", "comes in a gift box". Every fact has one."""

import re
from dataclasses import dataclass
from random import Random

from inference.builtin.corpus.invented_words import article
from inference.builtin.corpus.word_lists import MASS, MASS_ENDINGS
from inference.builtin.writer.facts import Fact, GivenProduct, words
from inference.builtin.writer.product_kinds import ProductKind

THIRD_PERSON = {"be": "is", "have": "has"}
PLURALS = {"be": "are"}
SUBSTANCES = ("tea and coffee", "pantry food", "snacks and sweets", "skin and hair care")
USED_UP = ("detergent", "cleaner", "liquid", "ink", "litter", "food", "seed", "soil", "mascara", "polish", "paints")
PACKAGES = ("gift box", "aluminium tube", "metal tin", "resealable pouch", "resealable bag", "packaging")
CONTAINERS = words("bag bottle box jar pouch tin tube")  # in which substances come
COMING = words("instructions labels rules stickers dice included attachments batteries")
POLICIES = words("warranty guarantee returns shipping delivery")
UNCOUNTED = words("""
    foil oil sugar cocoa fringe packaging certified effects certification cancelling honey citrus vanilla included
    dice
""")
NUMERALS = words("no two three four six")
VERB_ORDER = (
    "be", "be made of", "be made with", "come in", "come as", "measure", "weigh", "hold", "be rated", "be rated at",
    "last", "have", "come with", "offer",
)  # fmt: skip
NUMBER = r"\d[\d.,x ]*"
FIGURES: tuple[tuple[str, str, str], ...] = (  # pattern, verb, and the words before and after the figure
    (r"sizes? |one size|A\d\Z", "come in", "{}"),
    (r"(set|pack) of ", "come as", "a {}"),
    (r"up to ", "hold", "{}"),
    (r"ages |.* (players|persons|months)\Z", "be for", "{}"),
    (rf"{NUMBER} (cm|mm|m|inches|metres)\Z", "measure", "{}"),
    (rf"{NUMBER} inch\Z", "come in", "{a} {} size"),
    (rf"{NUMBER} (ml|l|litres|TB)\Z", "hold", "{}"),
    (rf"{NUMBER} (g|kg|oz|g/m2)\Z", "weigh", "{}"),
    (rf"-?{NUMBER} (W|V|mAh|Ah|GHz|K|lumens|ATM|watts|°C)\Z|1080p|10x42|IP\d|SPF ", "be rated at", "{}"),
    (rf"{NUMBER} (hours|minutes|days|years)\Z", "last", "{}"),
    (rf"{NUMBER} (bags|colours|sizes)\Z", "come in", "{}"),
    (rf"{NUMBER} carat\Z", "be", "{}"),
    (r"\d+% ", "be made of", "{}"),
)


@dataclass(frozen=True)
class Clause:
    """A clause about a product: its verb, and the rest, which has the fact.

    is_alone: it is a sentence of its own, as a promise of the shop is.
    """

    verb: str
    rest: str
    is_alone: bool = False


def with_article(text: str) -> str:
    """Return a part of a product as it stands in a sentence: "a removable tray", "two pockets", "a 3 cm heel"."""
    first, last = text.split()[0], text.partition(" of ")[0].split()[-1]
    is_many = last.endswith("s") and not last.endswith("ss")
    bare = is_many or last in UNCOUNTED or first in NUMERALS or last[0].isdigit()
    return text if bare else f"{article(text)} {text}"


def conjugated(verb: str, *, plural: bool) -> str:
    """Return an infinitive in the third person: "comes in", "is made of", and "are made of" for many."""
    first, _, rest = verb.partition(" ")
    first = PLURALS.get(first, first) if plural else THIRD_PERSON.get(first, first + "s")
    return " ".join(filter(None, (first, rest)))


def clause_of(fact: Fact, kind: ProductKind | None, random: Random, have: str = "have") -> Clause:
    """Return the clause of a fact about a product of a kind. Its verb is an infinitive. have: that of most parts."""
    text = fact.text
    if figure := _figure(text, kind, random):
        return figure
    if fact.form == "part" or text.endswith("included"):
        return _part(text, kind, have)
    if fact.form == "material":
        return Clause(_material_verb(kind), text)
    if fact.form == "colour":
        return Clause("come in", text)
    if fact.form == "adjective":
        return Clause("be", text)
    if fact.form in ("use", "room"):
        return Clause("be made for", text if fact.form == "use" else f"the {text}", is_alone=True)
    return _mass(text) if fact.form == "mass" else _statement(text)


def _figure(text: str, kind: ProductKind | None, random: Random) -> Clause | None:
    for pattern, verb, form in FIGURES:
        if re.match(pattern, text):
            if verb == "be rated at" and text.startswith(("IP", "SPF")):
                verb = "be rated"
            if _is_substance(kind) and verb == "be made of":
                verb = "be made with"
            elif _is_substance(kind) and (verb == "hold" or (verb == "weigh" and random.random() < 0.3)):
                verb, form = "come in", "a size of {}"
            return Clause(verb, form.format(text, a=article(text)), is_alone=verb == "be for")
    if text[:1].isdigit() and not re.match(r"\d+-(day|year) ", text):
        return Clause("have", with_article(text))
    return None


def _part(text: str, kind: ProductKind | None, have: str) -> Clause:
    first, last = text.split()[0], text.split()[-1]
    if last in POLICIES or last == "included":
        return Clause("come with", with_article(text), is_alone=True)
    if text.endswith(PACKAGES) or (last in CONTAINERS and _is_substance(kind)):
        return Clause("come in", with_article(text))
    if last == "oil" or first == "no":
        return Clause("be made with", text)
    if last in COMING or (kind and kind.category.name == "plants and seeds"):
        return Clause("come with", with_article(text))
    return Clause(have, with_article(text))


def _mass(text: str) -> Clause:
    """Return the clause of a word without an article. Of an invented one, the ending tells whether it is a material."""
    if text.split()[-1] in POLICIES:
        return Clause("come with", text, is_alone=True)
    if text in MASS:
        return Clause("offer", text)
    return Clause("be made of", text) if text.endswith(MASS_ENDINGS) else Clause("feature", text, is_alone=True)


def _statement(text: str) -> Clause:
    first, _, rest = text.partition(" ")
    if first == "for":
        return Clause("be made for", rest, is_alone=True)
    if text == "limited edition":
        return Clause("come as", f"a {text}", is_alone=True)
    if text == "bestseller":
        return Clause("be", f"a {text}", is_alone=True)
    if text == "gift-wrapped":
        return Clause("come", text, is_alone=True)
    return Clause("be", text, is_alone=first in ("made", "handmade", "designed") and bool(rest))


def _material_verb(kind: ProductKind | None) -> str:
    if kind and kind.category.name == "plants and seeds":
        return "come with"
    return "be made with" if _is_substance(kind) else "be made of"


def _is_substance(kind: ProductKind | None) -> bool:
    """Return whether a product is eaten or used up: it is no container, and made with what others are made of."""
    if kind is None or kind.category.name in SUBSTANCES:
        return kind is not None
    return kind.number != "one" and kind.noun.endswith(USED_UP)


def in_order(product: GivenProduct, random: Random) -> tuple[Fact, ...]:
    """Return the facts of a product with those of one verb together, and those that stand alone at the end."""

    def place(fact: Fact) -> int:
        clause = clause_of(fact, product.kind, random)
        if clause.is_alone:
            return len(VERB_ORDER)
        return VERB_ORDER.index(clause.verb)

    return tuple(sorted(product.facts, key=place))
