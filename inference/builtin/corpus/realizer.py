"""Writes one description: chooses a plan, spreads the keywords over its sentences, and keeps it free of repetition."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from random import Random

from inference.builtin.corpus.invented_words import article
from inference.builtin.corpus.keywords import Keyword, with_article
from inference.builtin.corpus.product_kinds import GROUPS, Kind
from inference.builtin.corpus.templates import CLOSINGS, KEYWORD_SENTENCES, MIDDLES, OPENINGS
from inference.builtin.corpus.text import content_words, join_words, repeated_five_grams

SENTENCES = {"short": (1, 2), "medium": (3, 6), "long": (5, 8)}
SENTENCE_CLASS = {
    "adjective": "adjective", "predicate": "predicate", "count": "noun", "mass": "noun",
    "material": "material", "activity": "activity", "room": "room",
}  # fmt: skip
TAKES_KEYWORD = {"material": "material", "part": "count", "use": "activity"}
MAX_WORDS = 92


class FactsUsedUpError(Exception):
    """A template asks for a fact that the product has no more of."""


class UnwritableError(Exception):
    """A product for which no description could be written."""


@dataclass(frozen=True)
class ProductFacts:
    """A product to describe."""

    name: str
    kind: Kind
    noun: str
    keywords: tuple[Keyword, ...]


class Writer:
    """One description in the making: which facts, keywords and words are used up."""

    def __init__(self, product: ProductFacts, tone: str, random: Random) -> None:
        self.product = product
        self.tone = tone
        self.random = random
        group = GROUPS[product.kind.group]
        self.facts = {
            "does": self._shuffled(product.kind.does),
            "part": self._shuffled(product.kind.parts),
            "material": self._shuffled(product.kind.materials)[:1],
            "use": self._shuffled(product.kind.uses),
            "place": self._shuffled(product.kind.places)[:2],
            "people": self._shuffled(group.people),
            "moment": self._shuffled(group.moments),
            "care": self._shuffled(group.care)[:1],
        }
        if any(keyword.form == "material" for keyword in product.keywords):
            self.facts["material"] = []
        self.pending = list(product.keywords)
        self.sentence_keywords: list[Keyword] = []
        self.opening_adjectives: list[Keyword] = []
        bare = product.name.lower().startswith("the ") or (product.name[:1].isupper() and random.random() < 0.12)
        self.mention = product.name if bare else f"the {product.name}"
        self.used: set[str] = set()
        self.free = content_words(" ".join((product.name, product.noun, *(k.text for k in product.keywords))))
        self.subjects = [f"{'these' if product.kind.plural else 'this'} {product.noun}", f"the {product.noun}"]
        random.shuffle(self.subjects)

    def _shuffled(self, items: Sequence[str]) -> list[str]:
        return self.random.sample(items, len(items))

    # --- slots ---

    def _fact(self, name: str) -> str:
        if self.pending and self.pending[0].form == TAKES_KEYWORD.get(name):
            return with_article(self.pending.pop(0))
        if not self.facts[name]:
            raise FactsUsedUpError
        return self.facts[name].pop()

    def _inflected(self, text: str, *, base: bool = False) -> str:
        singular = not (base or self.product.kind.plural)
        endings = {"s": "s", "es": "es", "ies": "ies", "it": "it", "its": "its"} if singular else {
            "s": "", "es": "", "ies": "y",
            "it": "them" if self.product.kind.plural else "it",
            "its": "their" if self.product.kind.plural else "its",
        }  # fmt: skip
        return re.sub(r"\{(s|es|ies|it|its)\}", lambda match: endings[match[1]], text)

    def _subject(self) -> str:
        if self.subjects and self.product.kind.group != "any" and self.random.random() < 0.3:
            return self.subjects.pop()
        return "they" if self.product.kind.plural else "it"

    def _noun_phrase(self) -> str:
        adjectives = ", ".join(keyword.text for keyword in self.opening_adjectives)
        self.opening_adjectives = []
        phrase = f"{adjectives} {self.product.noun}" if adjectives else self.product.noun
        return phrase if self.product.kind.plural else f"{article(phrase)} {phrase}"

    def _listed(self) -> str:
        keywords = self.sentence_keywords
        words = [k.text for k in keywords] if self.listing == "other" else [with_article(k) for k in keywords]
        return join_words(words)

    def _slot(self, slot: str, at_start: bool) -> str:
        plural = self.product.kind.plural
        match slot:
            case "name" | "Name":
                return self.mention
            case "It":
                return self._subject()
            case "it":
                return ("they" if at_start else "them") if plural else "it"
            case "its" | "Its":
                return "their" if plural else "its"
            case "This":
                return "these" if plural else "this"
            case "is":
                return "are" if plural else "is"
            case "has":
                return "have" if plural else "has"
            case "s" | "es" | "ies":
                return self._inflected("{" + slot + "}")
            case "a_noun":
                return self._noun_phrase()
            case "noun":
                return self.product.noun
            case "noun_singular":
                if plural:
                    raise FactsUsedUpError
                return self.product.noun
            case "do":
                return self._inflected(self._fact("does"), base=True)
            case "list" | "two" | "two_and":
                if slot != "list" and len(self.sentence_keywords) < 2:
                    raise FactsUsedUpError
                return self._listed()
        return self._inflected(self._fact(slot.lower().rstrip("_")))

    # --- sentences ---

    def _rendered(self, template: str) -> str:
        text = re.sub(r"\[([^\]]*)\]", lambda match: self.random.choice(match[1].split("|")), template)
        subject_follows = re.compile(r"\{it\} (?=\{(is|has|does)\}|will|may|feel|look|[a-z]+\{(s|es|ies)\})")
        text = subject_follows.sub("{they} ", text)

        def fill(match: re.Match[str]) -> str:
            if match[1] == "they":
                return "they" if self.product.kind.plural else "it"
            return self._slot(match[1], at_start=match.start() == 0)

        text = re.sub(r"\{(\w+)\}", fill, text)
        return re.sub(r"(^|[.!?] )([a-z])", lambda match: match[1] + match[2].upper(), text)

    def _attempt(self, template: str) -> str | None:
        """Return the template's sentence; None, with nothing used up, where it lacks a fact or repeats a word."""
        saved = (
            {name: list(items) for name, items in self.facts.items()},
            list(self.pending), list(self.opening_adjectives), list(self.subjects),
        )  # fmt: skip
        try:
            sentence = self._rendered(template)
            words = content_words(sentence) - self.free
            if not words & self.used and "  " not in sentence:
                self.used |= words
                return sentence
        except FactsUsedUpError:
            pass
        self.facts, self.pending, self.opening_adjectives, self.subjects = saved
        return None

    def sentence(self, templates: Sequence[str], tries: int = 8) -> str | None:
        """Return a sentence from one of the templates, or None where none of those tried fits."""
        for template in self.random.sample(templates, min(tries, len(templates))):
            if (found := self._attempt(template)) is not None:
                return found
        return None

    def opening(self) -> str | None:
        """Return the first sentence, which names the product and may carry up to two adjectives."""
        adjectives = self._alike("adjective")
        templates = OPENINGS[self.tone]
        if adjectives and self.random.random() < 0.6:
            self.opening_adjectives = adjectives[: self.random.choice((1, 1, 2))]
            del self.pending[: len(self.opening_adjectives)]
            templates = tuple(template for template in templates if "{a_noun}" in template)
        elif self.product.name.lower().endswith(self.product.noun) and self.random.random() < 0.8:
            templates = tuple(template for template in templates if "{a_noun}" not in template)
        return self.sentence(templates)

    def _alike(self, sentence_class: str) -> list[Keyword]:
        """Return the pending keywords up to the first that another class of sentence has to hold."""
        return list(takewhile(lambda keyword: SENTENCE_CLASS[keyword.form] == sentence_class, self.pending))

    def keyword_sentences(self) -> list[str] | None:
        """Sentences that hold every keyword still pending, in their order; None where one could not be written."""
        written = []
        many = len(self.pending) > 6
        while self.pending:
            form = SENTENCE_CLASS[self.pending[0].form]
            alike = self._alike(form)
            if len(self.pending) > 1 and self.random.random() < (0.5 if many else 0.25):
                form, alike = "other", self.pending
            most = self.random.choice((3, 4, 6, 8)) if many else self.random.choice((1, 2, 2, 3, 3))
            self.sentence_keywords = alike[: max(most, 2 if form == "other" else 1)]
            self.listing = form
            del self.pending[: len(self.sentence_keywords)]
            if (found := self.sentence(KEYWORD_SENTENCES[form], tries=12)) is None:
                return None
            written.append(found)
        return written

    def middles(self, count: int) -> list[str]:
        """Up to so many further sentences, of the tone or plain."""
        written = []
        for _ in range(count):
            tone = self.tone if self.random.random() < 0.65 else "plain"
            if (found := self.sentence(MIDDLES[tone])) is not None:
                written.append(found)
        return written

    def description(self, length: str) -> str | None:
        """Return the whole text; None where this draw did not come out well."""
        wanted = self.random.randint(*SENTENCES[length])
        if (first := self.opening()) is None or self.opening_adjectives or (told := self.keyword_sentences()) is None:
            return None
        closes = length != "short" and self.random.random() < (0.85 if length == "long" else 0.5)
        told += self.middles(max(0, wanted - 1 - len(told) - closes))
        last = self.sentence(CLOSINGS[self.tone]) if closes else None
        text = " ".join([first, *told, *([last] if last else [])])
        fits = len(text.split()) <= MAX_WORDS + 4 * max(0, len(self.product.keywords) - 6)
        whole = self.product.name in text and all(keyword.text in text for keyword in self.product.keywords)
        return text if fits and whole and not repeated_five_grams(text) else None


def write_description(product: ProductFacts, tone: str, length: str, random: Random) -> str:
    """Return a description of the product that names it, holds every keyword and repeats nothing.

    Raises `UnwritableError` where no draw of a thousand comes out well: a fault of the plans or of the product.
    """
    for _ in range(1000):
        if (text := Writer(product, tone, random).description(length)) is not None:
            return text
    raise UnwritableError(f"No plan fits {product}; look for an odd character in its name, keywords or facts.")
