"""Descriptions that state the given facts, each in the form that fits it, and nothing else.

No description says what a product is for, where it is used or by whom, unless a given fact says it.
"""

from random import Random

from inference.builtin.corpus.invented_words import article
from inference.builtin.corpus.text import capitalised, join_words, repeated_five_grams
from inference.builtin.writer.clauses import Clause, clause_of, conjugated, with_article
from inference.builtin.writer.facts import Fact, GivenProduct

TONES = ("plain", "friendly", "formal", "playful", "luxurious")
MIN_SENTENCES = {"short": (1, 2), "": (2, 2), "medium": (2, 3), "long": (3, 4)}  # by length
MAX_FACTS = {"short": (2, 3, 3), "": (2, 2, 2, 3), "medium": (1, 2, 2, 3), "long": (1, 2, 2)}  # in a sentence
MAX_WORDS = {"short": 40, "": 60, "medium": 80, "long": 150}
NAMED_SHARE = 0.15  # of sentences that follow one without the name
ALSO_SHARE = 0.6  # of sentences that begin as the one before
DESCRIBED_SHARE = 0.2

OPENERS = {
    "plain": (
        "{This} {is} {the}.", "Here {is} {the}.", "Take a look at {the}.", "Have a look at {the}.",
        "Take a closer look at {the}.",
    ),
    "friendly": (
        "Meet {the}.", "Say hello to {the}.", "Hello! {This} {is} {the}.", "Hi there! Here {is} {the}.",
        "We would love to show you {the}.", "Have you seen {the} yet?", "We are glad that you found {the}.",
        "Come and take a look at {the}.", "Let us show you {the}.", "We are happy to show you {the}.",
    ),
    "formal": (
        "We present {the}.", "We are pleased to offer {the}.", "It is our pleasure to present {the}.",
        "May we introduce {the}?", "Allow us to present {the}.", "We are pleased to introduce {the}.",
        "We are proud to present {the}.",
    ),
    "playful": (
        "Psst! Have you met {the}?", "Ta-da! Here {is} {the}.", "Guess what? {The} {is} here!",
        "Look what we have here: {the}!", "Drum roll, please: {the}!", "Say hi to {the}!", "Surprise! Here {is} {the}.",
        "Ready or not, here {is} {the}!",
    ),
    "luxurious": (
        "Discover {the}.", "Treat yourself to {the}.", "We invite you to discover {the}.",
        "Enjoy a closer look at {the}.", "Take a moment to discover {the}.",
        "It is time to discover {the}.", "Step closer and discover {the}.",
    ),
}  # fmt: skip
KIND_OPENERS = {  # with the first facts beside the kind: "a quiet kettle with a copper base"
    "plain": ("{The} {is} {described}.", "{This} {is} {the}, {described}."),
    "friendly": ("Meet {the}, {described}.", "Say hello to {the}, {described}."),
    "formal": ("We present {the}, {described}.", "{The} {is} {described}."),
    "playful": ("Say hi to {the}, {described}!", "Psst! {The} {is} {described}!"),
    "luxurious": ("Discover {the}, {described}.", "Treat yourself to {the}, {described}."),
}
ENDINGS = {
    "plain": ("Add {it} to your order.", "You can order {it} here.", "Take your time to decide."),
    "friendly": ("Why not give {it} a try?", "We think you will like {it}.", "We hope you like {it} as much as we do."),
    "formal": ("We are glad to answer any questions.", "Orders are welcome.", "We look forward to your order."),
    "playful": ("Go on, you know you want to!", "Tempted? We thought so.", "Say yes!"),
    "luxurious": ("Let {it} be yours.", "Make {it} yours."),
}
HAVING_VERBS = ("have", "have", "have", "come with", "come with", "feature")
# Pairs of verbs whose facts stand in one sentence: "It measures 30 cm and is made of oak."
LEADING = ("be", "be made of", "be made with", "be rated at", "come in", "hold", "measure", "weigh")
FOLLOWING = (*LEADING, "have", "come with", "feature")


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
        if described_count and roll < DESCRIBED_SHARE:
            facts = facts[described_count:]
            sentences.append(self._fill(KIND_OPENERS[self.tone], described=described))
        elif not facts or self.tone != "plain" or roll < 0.65:
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
        if kind.number != "many":
            described = f"{article(facts[0].text)} {described}"
        if len(facts) > 1 and facts[1].form == "part" and self.random.random() < 0.7:
            return f"{described} with {with_article(facts[1].text)}", 2
        return described, 1

    def _fill(self, templates: tuple[str, ...], described: str = "") -> str:
        return capitalised(self.random.choice(templates).format(**self.slots, described=described))

    def _fact_sentences(self, facts: list[Fact], length: str, *, with_name: bool) -> list[str]:
        """Return the sentences of these facts. with_name: the first has the product's name as its subject."""
        have = self.random.choice(HAVING_VERBS)
        clauses = [clause_of(fact, self.product.kind, self.random, have) for fact in facts]
        sentences, before, has_name = list[str](), "", not with_name
        while clauses:
            count = self._together(clauses, self.random.choice(MAX_FACTS[length]))
            verb = clauses[0].verb
            has_name = not has_name and (not sentences or self.random.random() < NAMED_SHARE)
            subject = self.slots["The"] if has_name else self.subject
            is_like_before = verb == before and not has_name and not clauses[0].is_alone
            also = is_like_before and self.random.random() < ALSO_SHARE
            sentences.append(f"{subject} {self._predicate(clauses[:count], also)}.")
            before, clauses = verb, clauses[count:]
        return sentences

    def _together(self, clauses: list[Clause], most: int) -> int:
        """Return how many of the clauses stand in the next sentence: those of its verb, or two that go together."""
        first = clauses[0]
        alike = 1
        while alike < min(most, len(clauses)) and not first.is_alone and _are_alike(first, clauses[alike]):
            alike += 1
        if alike == 1 and most > 1 and len(clauses) > 1 and _go_together(first, clauses[1]):
            following = clauses[2] if len(clauses) > 2 else None  # two facts of the second verb stand together
            return 1 if following and _are_alike(clauses[1], following) and self.random.random() < 0.8 else 2
        return alike

    def _predicate(self, clauses: list[Clause], also: bool) -> str:
        """Return what a sentence says: "is quiet and made of oak", "comes in black", "also has a lid"."""
        first, last = clauses[0].verb, clauses[-1].verb
        start = conjugated(first, plural=self.plural)
        if also:
            be, _, rest = start.partition(" ") if first.startswith("be") else ("", "", start)
            start = " ".join(filter(None, (be, "also", rest)))
        if first == last:
            return f"{start} {join_words([clause.rest for clause in clauses])}"
        if first.startswith("be") and last.startswith("be"):
            second = last.removeprefix("be").strip()
        else:
            second = conjugated(last, plural=self.plural)
        return " ".join(filter(None, (start, clauses[0].rest, "and", second, clauses[1].rest)))


def _are_alike(first: Clause, second: Clause) -> bool:
    return second.verb == first.verb and not second.is_alone and second.verb not in ("come in", "hold", "weigh")


def _go_together(first: Clause, second: Clause) -> bool:
    """Return whether two clauses stand in one sentence: no verb comes twice, and no promise of the shop is joined."""
    if first.is_alone or second.is_alone or first.verb == second.verb:
        return False
    if first.verb.split()[0] == second.verb.split()[0] == "come":
        return False
    return first.verb in LEADING and second.verb in FOLLOWING


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
