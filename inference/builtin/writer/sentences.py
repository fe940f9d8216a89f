"""Descriptions that state the given facts and what a kind of product is for, and nothing else."""

from itertools import groupby
from random import Random

from inference.builtin.corpus.text import capitalised, join_words, repeated_five_grams
from inference.builtin.writer.facts import Fact, GivenProduct, figure_clause, with_article, words

TONES = ("plain", "friendly", "formal", "playful", "luxurious")
SENTENCES = {"short": (1, 2), "": (2, 3), "medium": (3, 4), "long": (4, 6)}  # by length
MAX_WORDS = {"short": 40, "": 60, "medium": 80, "long": 150}
DOUBLED = words("""
    chop cut fit grip hit knit label let level model mop nap pin plan pot put run set sip sit skip slip snap spin stop
    swim tap trim wrap
""")
IRREGULAR = {"be": "being", "lie": "lying", "picnic": "picnicking"}
SECOND_VERBS = words("""
    bend click cook crochet drive enjoy grind label listen pour read roast serve share sketch slice spread wrap write
""")
# Uses in which the product is what the verb is about: it is worn, drunk or sat on.
OBJECT_VERBS = words("wear drink eat snack nibble enjoy share serve sleep lay lie hang pin top spread lean pour")
PREPOSITIONS = words("""
    after around at between by in on over through to under with beside before outside outdoors together cold up
""")

OPENERS = {
    "plain": (
        "{Use} with {the}.", "Use {the} to {use}.", "{The} {is} for {doing}.", "{The} {is} made for {doing} {place}.",
        "{The}: {a_kind} for {doing}.", "Use {the} for {doing} {place}.",
    ),
    "friendly": (
        "Meet {the}, {a_kind} for {doing}.", "Say hello to {the}, ready to help you {use} {place}.",
        "If you like to {use}, take a look at {the}.", "Time to {use}? {The} {is} here for it.",
        "You want to {use}: {the} {is} right there with you.", "Here {is} {the}, for {doing} {place}.",
    ),
    "formal": (
        "{The} {is} intended for {doing}.", "For {doing}, we present {the}.", "{The} {is} designed to {use}.",
        "We offer {the} for {doing} {place}.",
    ),
    "playful": (
        "Ready to {use}? So {is} {the}!", "{Use}? {The} {is} in!", "Psst: {the} would love to help you {use}.",
        "Who wants to {use}? {The} {does}!", "{Doing}, but with a smile: that {is} {the}.",
    ),
    "luxurious": (
        "Discover {the}, for {doing} in style.", "{The} turn{s} {doing} into a small ritual.",
        "Treat yourself to {the} and {use} with elegance.", "With {the}, {doing} becomes a moment of your own.",
        "An invitation to {use}: {the}.",
    ),
}  # fmt: skip
ENDINGS = {
    "plain": ("{It} {is} right {place}.", "A place for {it} {place} is easy to find.", "Use {it} {place}."),
    "friendly": ("We think you will like {it} {place}.", "Find {it} a spot {place}.", "Why not give {it} a try?"),
    "formal": ("{It} {is} suited to use {place}.", "{It} may be used {place}."),
    "playful": ("{Place}, {it} fit{s} right in.", "Go on, {use}!", "Your turn to {use}."),
    "luxurious": ("{Place}, {it} set{s} the scene.", "A quiet pleasure {place}.", "Let {it} accompany you {place}."),
}
# For uses in which the product is the verb's object.
OBJECT_OPENERS = {
    "plain": (
        "{The} {is} for {doing}.", "{The}: {a_kind} for {doing}.", "{The} {is} made for {doing}.",
        "{This} {is} {the}, {a_kind} for {doing}.",
    ),
    "friendly": (
        "Meet {the}, {a_kind} for {doing}.", "Say hello to {the}, for {doing}.", "Here {is} {the}, made for {doing}.",
        "Looking for {a_kind} for {doing}? Take a look at {the}.",
    ),
    "formal": (
        "{The} {is} intended for {doing}.", "We present {the}, {a_kind} for {doing}.",
        "{The} {is} designed for {doing}.", "For {doing}, we offer {the}.",
    ),
    "playful": (
        "Psst: {the} {is} all about {doing}.", "{Doing}, but with a smile: that {is} {the}.",
        "Guess what {is} ready for {doing}? {The}!", "Hello, it is {the}, here for {doing}!",
    ),
    "luxurious": (
        "Discover {the}, for {doing} in style.", "Treat yourself to {the}, {a_kind} for {doing}.",
        "With {the}, {doing} becomes a moment of your own.", "{The} turn{s} {doing} into a small ritual.",
    ),
}  # fmt: skip
UNPLACED_ENDINGS = {
    "plain": ("Add {it} to your order.", "Have a look at {it}."),
    "friendly": ("Why not give {it} a try?", "We think you will like {it}."),
    "formal": ("We are glad to answer any questions.", "Orders are welcome."),
    "playful": ("Go on, you know you want to!", "Tempted? We thought so."),
    "luxurious": ("A small indulgence for yourself or someone dear.", "Let {it} be yours."),
}
LABELS = ("Details", "Good to know", "Key facts", "At a glance")
FIGURE_LABELS = ("At a glance", "The figures", "In numbers", "Details")
UNKNOWN_OPENERS = ("Meet {the}.", "This is {the}.", "{The} in short.", "Introducing {the}.", "Take a look at {the}.")


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


class SentenceWriter:
    """Writes one description of a product in a tone and a length."""

    def __init__(self, product: GivenProduct, tone: str, random: Random) -> None:
        self.product, self.tone, self.random = product, tone, random
        kind = product.kind
        self.plural = kind is not None and kind.number == "many"
        use = kind.use if kind else ""
        place = random.choice(kind.category.places) if kind else ""
        bare = kind is None or kind.number == "mass" or product.name.lower().startswith("the ")
        the = product.name if bare else f"the {product.name}"
        noun = kind.noun if kind else ""
        slots = {
            "use": use, "doing": gerund(use) if use else "", "place": place, "the": the,
            "is": "are" if self.plural else "is", "does": "do" if self.plural else "does",
            "This": "These" if self.plural else "This", "it": "them" if self.plural else "it",
            "s": "" if self.plural else "s",
            "a_kind": with_article(noun) if kind and kind.number == "one" else noun,
        }  # fmt: skip
        self.slots = slots | {name.capitalize(): capitalised(slots[name]) for name in ("use", "doing", "place", "the")}
        self.subject = "They" if self.plural else "It"

    def write(self, length: str) -> str:
        """Return a description whose every fact stands as it was given. Facts are in the order of the prompt."""
        groups = self._fact_sentences()
        count = self.random.randint(*SENTENCES[length])
        template = self.random.choice(self._openers())
        opener = self._fill((template,))
        sentences = [opener, *groups]
        if self.product.kind and len(sentences) < count:
            placed = not self._has_place() and "{place}" not in template and self.random.random() < 0.6
            sentences.append(self._fill((ENDINGS if placed else UNPLACED_ENDINGS)[self.tone]))
        return " ".join(sentences)

    def _openers(self) -> tuple[str, ...]:
        kind = self.product.kind
        if kind is None:
            return UNKNOWN_OPENERS
        words = kind.use.split()
        if words[0] in OBJECT_VERBS or words[-1] in PREPOSITIONS:
            return OBJECT_OPENERS[self.tone]
        openers = OPENERS[self.tone]
        return tuple(opener for opener in openers if "{place}" not in opener) if self._has_place() else openers

    def _has_place(self) -> bool:
        """Return whether the use says where or when already."""
        return self.product.kind is None or bool(PREPOSITIONS & set(self.product.kind.use.split()))

    def _fill(self, templates: tuple[str, ...]) -> str:
        text = self.random.choice(templates)
        if self.plural:
            text = text.replace("{It} ", "They ").replace(", {it} ", ", they ")
        return capitalised(text.replace("{It} ", "It ").format(**self.slots))

    def _fact_sentences(self) -> list[str]:
        facts, sentences = list(self.product.facts), list[str]()
        while facts:
            size = min(len(facts), self.random.choice((1, 2, 2, 3)))
            part, facts = facts[:size], facts[size:]
            sentences.append(self._facts_together(part, len(sentences)))
        return sentences

    def _facts_together(self, facts: list[Fact], number: int) -> str:
        """Return one sentence with these facts, in their order."""
        subject = self.subject if number % 2 == 0 or self.random.random() < 0.6 else capitalised(self.slots["the"])
        forms = {fact.form for fact in facts}
        texts = [fact.text for fact in facts]
        if forms == {"part"}:
            listed = join_words([with_article(text) for text in texts])
            verb = self.random.choice(("come with", "have", "feature", "offer"))
            return f"{subject} {self._conjugated(verb)} {listed}."
        if "figure" in forms and len(forms) == 1 and len(facts) > 1:
            return f"{self.random.choice(FIGURE_LABELS)}: {join_words(texts)}."
        clauses = [self._clause(fact) for fact in facts]
        if all(clauses):
            pairs = groupby(zip(facts, clauses, strict=True), key=lambda pair: pair[0].form)
            return f"{subject} {join_words([_merged([clause for _, clause in group]) for _, group in pairs])}."
        return f"{self.random.choice(LABELS)}: {join_words(texts)}."

    def _conjugated(self, verb: str) -> str:
        first, _, rest = verb.partition(" ")
        third = {"have": "has"}.get(first, first + "s")
        return " ".join(filter(None, (first if self.plural else third, rest)))

    def _clause(self, fact: Fact) -> str:
        be, have = ("are", "have") if self.plural else ("is", "has")
        if fact.form == "part":
            return f"{have} {with_article(fact.text)}"
        if fact.form == "adjective":
            return f"{be} {fact.text}"
        if fact.form == "material":
            return f"{be} made {'with' if self.slots['a_kind'] == '' or self._is_eaten() else 'of'} {fact.text}"
        if fact.form == "colour":
            return f"{'come' if self.plural else 'comes'} in {fact.text}"
        if fact.form == "figure":
            return figure_clause(fact.text, self.plural) or ""
        return f"{be} {fact.text}" if fact.text.startswith(("made", "handmade", "designed")) else ""

    def _is_eaten(self) -> bool:
        return self.product.kind is not None and self.product.kind.number == "mass"


def _merged(clauses: list[str]) -> str:
    """Return clauses of one form as one, with their verb once: "is quiet and compact"."""
    return join_words([clauses[0], *(clause.partition(" ")[2] for clause in clauses[1:])])


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
