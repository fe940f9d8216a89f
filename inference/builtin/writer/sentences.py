"""Descriptions that state the given facts, each in the form that fits it, and nothing else.

No description says what a product is for, where it is used or by whom, unless a given fact says it.
"""

from itertools import groupby
from random import Random

from inference.builtin.corpus.invented_words import article
from inference.builtin.corpus.text import capitalised, join_words, repeated_five_grams
from inference.builtin.writer.facts import Clause, Fact, GivenProduct, figure_clause, statement_clause, with_article

TONES = ("plain", "friendly", "formal", "playful", "luxurious")
MIN_SENTENCES = {"short": (1, 2), "": (2, 2), "medium": (2, 3), "long": (3, 4)}  # by length
GROUP_SIZES = {"short": (2, 2, 3), "": (1, 2, 2, 3), "medium": (1, 1, 2), "long": (1, 1, 1, 2)}  # facts in a sentence
MAX_WORDS = {"short": 40, "": 60, "medium": 80, "long": 150}
LISTED_SHARE = 0.12  # of sentences, whose facts are listed though each could stand in a clause

OPENERS = {
    "plain": (
        "{This} {is} {the}.", "Here {is} {the}.", "Take a look at {the}.", "You are looking at {the}.",
        "Have a look at {the}.",
    ),
    "friendly": (
        "Meet {the}.", "Say hello to {the}.", "Here {is} {the}, and we are happy to show {it} to you.",
        "Hello! {This} {is} {the}.", "We would love you to meet {the}.", "Have you seen {the} yet?",
        "We are glad that you found {the}.", "Come and take a look at {the}.",
    ),
    "formal": (
        "We present {the}.", "We are pleased to offer {the}.", "It is our pleasure to present {the}.",
        "May we introduce {the}?", "Allow us to present {the}.", "We are pleased to introduce {the}.",
        "Please find the details of {the} below.",
    ),
    "playful": (
        "Psst: have you met {the}?", "Ta-da! Here {is} {the}.", "Guess who is here: {the}!",
        "Knock, knock! Who is there? {The}!", "Look what we have here: {the}!", "Drum roll, please: {the}!",
        "Yes, you saw that right: {the}!", "Say hi to {the}!",
    ),
    "luxurious": (
        "Discover {the}.", "Treat yourself to {the}.", "An invitation: {the}.", "Allow yourself {the}.",
        "Take a moment for {the}.", "Let {the} be your choice.", "Something to look forward to: {the}.",
        "Step closer and discover {the}.",
    ),
}  # fmt: skip
KIND_OPENERS = {  # with the first facts beside the kind: "a quiet kettle with a copper base"
    "plain": ("{The} {is} {described}.", "{This} {is} {the}: {described}."),
    "friendly": ("Meet {the}, {described}.", "Say hello to {the}, {described}."),
    "formal": ("We present {the}, {described}.", "{The} {is} {described}."),
    "playful": ("Guess who is here: {the}, {described}!", "Psst: {the} {is} {described}!"),
    "luxurious": ("Discover {the}, {described}.", "Treat yourself to {the}, {described}."),
}
ENDINGS = {
    "plain": ("Add {it} to your order.", "Order {it} if you like {it}.", "Take your time to decide."),
    "friendly": ("Why not give {it} a try?", "We think you will like {it}.", "We hope you like {it} as much as we do."),
    "formal": ("We are glad to answer any questions.", "Orders are welcome.", "We look forward to your order."),
    "playful": ("Go on, you know you want to!", "Tempted? We thought so.", "Say yes!"),
    "luxurious": ("Let {it} be yours.", "Allow yourself a closer look.", "You choose, and we do the rest."),
}
LABELS = ("Details", "Good to know", "Key facts", "At a glance", "In short", "The facts")
HAVING_VERBS = ("come with", "come with", "have", "have", "feature", "offer")


class SentenceWriter:
    """Writes one description of a product in a tone and a length."""

    def __init__(self, product: GivenProduct, tone: str, random: Random) -> None:
        self.product, self.tone, self.random = product, tone, random
        kind = product.kind
        self.plural = kind is not None and kind.number == "many"
        bare = kind is None or kind.number == "mass" or product.name.lower().startswith("the ")
        the = product.name if bare else f"the {product.name}"
        self.slots = {
            "the": the, "The": capitalised(the), "is": "are" if self.plural else "is",
            "This": "These" if self.plural else "This", "it": "them" if self.plural else "it",
        }  # fmt: skip
        self.subject = "They" if self.plural else "It"

    def write(self, length: str) -> str:
        """Return a description whose every fact stands as it was given. Facts are in the order of the prompt."""
        facts = list(self.product.facts)
        sentences: list[str] = []
        described, described_count = self._described(facts)
        roll = self.random.random()
        if described_count and roll < 0.35:
            facts = facts[described_count:]
            sentences.append(self._fill(KIND_OPENERS[self.tone], described=described))
        elif not facts or self.tone != "plain" or roll < 0.7:
            sentences.append(self._fill(OPENERS[self.tone]))
        sentences += self._fact_sentences(facts, length, with_name=not sentences)
        if len(sentences) < self.random.randint(*MIN_SENTENCES[length]):
            sentences.append(self._fill(ENDINGS[self.tone]))
        return " ".join(sentences)

    def _described(self, facts: list[Fact]) -> tuple[str, int]:
        """Return the kind with the facts that fit beside it, and their number: "a quiet kettle with a lid", 2."""
        kind = self.product.kind
        name = self.product.name.lower()
        if kind is None or not facts or facts[0].form != "adjective" or facts[0].text.lower() in name:
            return "", 0
        described = f"{facts[0].text} {kind.noun}"
        if kind.number == "one":
            described = f"{article(facts[0].text)} {described}"
        if len(facts) > 1 and facts[1].form == "part" and self.random.random() < 0.7:
            return f"{described} with {with_article(facts[1].text)}", 2
        return described, 1

    def _fill(self, templates: tuple[str, ...], described: str = "") -> str:
        return capitalised(self.random.choice(templates).format(**self.slots, described=described))

    def _fact_sentences(self, facts: list[Fact], length: str, *, with_name: bool) -> list[str]:
        """Return the sentences of these facts. with_name: the first has the product's name as its subject."""
        sentences = list[str]()
        while facts:
            part = facts[: self.random.choice(GROUP_SIZES[length])]
            have = self._conjugated(self.random.choice(HAVING_VERBS))
            clauses = [clause for fact in part if (clause := self._clause(fact, have))]
            is_listed = len(clauses) < len(part) or (len(facts) > 1 and self.random.random() < LISTED_SHARE)
            named = with_name if not sentences else len(sentences) % 2 == 1 and self.random.random() < 0.3
            sentences.append(self._listed(facts, named) if is_listed else self._clauses_together(clauses, named))
            facts = [] if is_listed else facts[len(part) :]
        return sentences

    def _listed(self, facts: list[Fact], named: bool) -> str:
        listed = join_words([fact.text for fact in facts])
        if named:
            return f"{self.slots['The']} {self.random.choice(('at a glance', 'in short'))}: {listed}."
        return f"{self.random.choice(LABELS)}: {listed}."

    def _clauses_together(self, clauses: list[Clause], named: bool) -> str:
        """Return one sentence of these clauses, in their order: "It is quiet and compact and has a lid."."""
        groups = [
            f"{verb} {join_words([clause.rest for clause in group])}"
            for verb, group in groupby(clauses, key=lambda clause: clause.verb)
        ]
        return f"{self.slots['The'] if named else self.subject} {join_words(groups)}."

    def _clause(self, fact: Fact, have: str) -> Clause | None:
        """Return the clause of a fact, or None if it fits a list only. have: the verb of parts."""
        be = "are" if self.plural else "is"
        if fact.form == "part":
            return Clause(have, with_article(fact.text))
        if fact.form == "material":
            return Clause(f"{be} made {'with' if self._is_substance() else 'of'}", fact.text)
        if fact.form == "colour":
            return Clause(self._conjugated("come in"), fact.text)
        if fact.form == "figure":
            return figure_clause(fact.text, self.plural)
        return Clause(be, fact.text) if fact.form == "adjective" else statement_clause(fact.text, self.plural)

    def _conjugated(self, verb: str) -> str:
        first, _, rest = verb.partition(" ")
        third = {"have": "has"}.get(first, first + "s")
        return " ".join(filter(None, (first if self.plural else third, rest)))

    def _is_substance(self) -> bool:
        return self.product.kind is not None and self.product.kind.number == "mass"


def write_description(product: GivenProduct, tone: str, length: str, random: Random) -> str:
    """Return a description within the length, without a phrase of five words that occurs twice."""
    for _ in range(20):
        text = SentenceWriter(product, tone, random).write(length)
        plain = text
        for given in sorted((product.name, *(fact.text for fact in product.facts)), key=len, reverse=True):
            plain = plain.replace(given, "x")
        if not repeated_five_grams(plain) and len(text.split()) <= MAX_WORDS[length]:
            return text
    return text
