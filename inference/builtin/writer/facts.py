"""Products for the writer's corpus: names and given facts."""

from dataclasses import dataclass
from random import Random

from inference.builtin.corpus.invented_words import invented
from inference.builtin.corpus.keywords import keyword
from inference.builtin.corpus.word_lists import NAME_WORDS, SUFFIXES
from inference.builtin.writer.product_kinds import ProductKind, split


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


COLOURS = split("""
    navy blue; forest green; black; white; cream; terracotta; dusty pink; mustard yellow; charcoal; sand; burgundy;
    sky blue; olive; ivory; grey; copper red; lilac; mint green
""")
STATEMENTS = split("""
    made in Portugal; made in Germany; made in Italy; handmade in Spain; made in Japan; designed in Denmark;
    GOTS certified; FSC certified; OEKO-TEX certified; 2-year warranty; 5-year guarantee; limited edition; gift-wrapped;
    IP65; vegan; organic; handmade; recyclable packaging; for beginners; for children; for travel; for small rooms;
    for everyday use; bestseller; spare parts included; 30-day returns
""")
OPEN_FORMS = {
    "activity": "use", "adjective": "adjective", "count": "part", "material": "material", "predicate": "adjective",
    "room": "room",
}  # fmt: skip
DOUBLED = words("""
    chop cut fit grip hit knit label let level model mop nap pin plan pot put run set sip sit skip slip snap spin stop
    swim tap trim wrap
""")
IRREGULAR = {"be": "being", "lie": "lying", "picnic": "picnicking"}
SECOND_VERBS = words("""
    bend click cook crochet drive enjoy grind label listen pour read roast serve share sketch slice spread wrap write
""")


@dataclass(frozen=True)
class Fact:
    """A fact as the shop gives it.

    form: "adjective", "part", "material", "figure", "colour", "mass" ("comfort", or an invented word), "use",
    "room" or "statement".
    """

    text: str
    form: str


@dataclass(frozen=True)
class GivenProduct:
    """A product: its name, what it is, and the given facts in their order. kind is None if the name does not say it."""

    name: str
    kind: ProductKind | None
    facts: tuple[Fact, ...]


def gerund(use: str) -> str:
    """Return a verb phrase with its verbs as gerunds: "chopping and slicing", "boiling water"."""
    words = use.split()
    for index, word in enumerate(words):
        if index == 0 or (words[index - 1] in ("and", "or") and word in SECOND_VERBS):
            words[index] = _ing(word)
    return " ".join(words)


def _ing(verb: str) -> str:
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb in DOUBLED:
        return verb + verb[-1] + "ing"
    return verb[:-1] + "ing" if verb.endswith("e") and not verb.endswith(("ee", "ye")) else verb + "ing"


def _statement(text: str) -> Fact:
    return Fact(text, "part" if text.endswith(("warranty", "guarantee", "returns", "packaging")) else "statement")


def _open_fact(random: Random, unseen: bool) -> Fact:
    """Return a fact of words that no category has, to teach copying."""
    found = keyword(random, unseen, 0.3)
    return Fact(found.text, OPEN_FORMS.get(found.form, "mass"))


def draw_facts(random: Random, kind: ProductKind | None, count: int, unseen: bool) -> tuple[Fact, ...]:
    """Return facts in random order, no two alike and at most one material and one colour."""
    found: list[Fact] = []
    while len(found) < count:
        roll = random.random()
        if kind is None or roll < 0.14:
            fact = _open_fact(random, unseen)
        elif roll < 0.34:
            fact = Fact(random.choice(kind.category.adjectives), "adjective")
        elif roll < 0.56:
            fact = Fact(random.choice(kind.category.parts), "part")
        elif roll < 0.7:
            fact = Fact(random.choice(kind.category.materials), "material")
        elif roll < 0.84:
            fact = Fact(random.choice(kind.category.figures), "figure")
        elif roll < 0.9:
            fact = Fact(random.choice(COLOURS), "colour")
        elif roll < 0.93:
            fact = Fact(f"for {gerund(kind.use)}", "statement")
        else:
            fact = _statement(random.choice(STATEMENTS))
        single = ("material", "colour")
        if all(fact.text != other.text and (fact.form != other.form or fact.form not in single) for other in found):
            found.append(fact)
    return tuple(found)


def _title(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in text.split())


def draw_name(random: Random, kind: ProductKind | None, unseen: bool) -> str:
    """Return a name as shops write them: with a brand, a material or a model, or of plain words."""
    brand = invented(random, unseen).capitalize()
    if random.random() < 0.2:
        brand += " " + random.choice(NAME_WORDS).capitalize()
    if kind is None:
        model = f"{random.choice('ABKMRSTXZ')}{random.randint(2, 990)}"
        return f"{brand} {random.choice((*SUFFIXES, model))}"
    noun = _title(kind.noun) if random.random() < 0.75 else kind.noun
    roll = random.random()
    if roll < 0.5:
        name = f"{brand} {noun}"
    elif roll < 0.62:
        name = f"{noun} {brand}"
    elif roll < 0.74:
        name = f"{_title(random.choice(NAME_WORDS))} {noun}"
    elif roll < 0.84:
        name = f"{_title(random.choice(kind.category.adjectives))} {noun}"
    elif roll < 0.92:
        name = f"{brand} {_title(random.choice(kind.category.materials))} {noun}"
    else:
        name = f"{brand} {noun} {random.choice((*SUFFIXES, str(random.randint(2, 90) * 10)))}"
    return name.lower() if random.random() < 0.03 else name


def draw_product(random: Random, kinds: list[ProductKind], *, unseen: bool, count: int) -> GivenProduct:
    """Return a product of one of the kinds; one in thirty does not say what it is."""
    kind = None if random.random() < 0.03 and not unseen else random.choice(kinds)
    return GivenProduct(draw_name(random, kind, unseen), kind, draw_facts(random, kind, count, unseen))
