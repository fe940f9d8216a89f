"""Rules that a description must keep before a shop shows it: it states the given facts, and no others.

Words are compared in lower case. The lists of claims are English; the other rules hold in every language.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import takewhile

from commerce.descriptions.text.plain_text import plain_text
from commerce.descriptions.text.prompts import DescriptionRequest
from commerce.descriptions.text.vocabulary import CLAIMS, KINDS, NUMBER_WORDS

GRAM_LENGTH = 5
ENDS = (".", "!", "?", "…", "。", "\uff01", "\uff1f", "؟", "।")  # two are the full-width ! and ?
CLOSING = "\"'”\u2019»)]"
_WORD = re.compile(r"\w+(?:['\u2019]\w+)?")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LABEL = re.compile(
    r"^[ \t*#>-]{0,9}(?:product name|keywords?|tone|length|language|note|description|title)[ \t*]{0,9}:", re.I | re.M
)
MAX_NOUN_PHRASE_LENGTH = 5  # words
_COPULAS = frozenset({"is", "are", "this", "these"})
_AFTER_NOUNS = frozenset({
    "about", "above", "and", "around", "as", "at", "behind", "beside", "but", "by", "for", "from", "in", "inside",
    "into", "like", "near", "next", "of", "off", "on", "onto", "or", "over", "so", "than", "that", "through", "to",
    "under", "when", "where", "which", "who", "with", "without", "you", "your",
})  # fmt: skip


def broken_rules(text: str, request: DescriptionRequest, *, ended: bool) -> list[str]:
    """Return what is wrong with a plain text, each as the end of a sentence, or nothing for one that may be shown.

    ended: whether the model ended the text itself. A free prompt gives no facts to compare a text with.
    """
    if not request.product_name:
        return []
    return list(_broken_rules(text, request, ended))


def plain_statement(request: DescriptionRequest) -> str:
    """Return the given facts as one line of plain text, in the words of the shop."""
    name, *facts = [plain_text(fact) or fact.strip() for fact in (request.product_name, *request.keywords)]
    line = plain_text(" ".join(f"{name}: {', '.join(facts)}".removesuffix(": ").split()))
    return line if line.endswith(ENDS) else f"{line}."


def _broken_rules(text: str, request: DescriptionRequest, ended: bool) -> Iterator[str]:
    given = [fact for fact in map(_normal, (request.product_name, *request.keywords)) if fact]
    written = _normal(text)
    if not ended or not text.rstrip(CLOSING).endswith(ENDS):
        yield "it does not end"
    for fact in given:
        if fact not in written:
            yield f'it lacks "{fact}"'
    if label := _LABEL.search(text):
        yield f'it repeats the request: "{label[0].strip()}"'
    known = set(_words(" ".join(given)))
    rest = written
    for fact in sorted(given, key=len, reverse=True):
        rest = rest.replace(fact, " \x00 ")
    yield from _invented(rest, known, " ".join(given))
    if repeated := _repeated_gram(rest):
        yield f'it repeats "{repeated}"'


def _invented(rest: str, known: set[str], given: str) -> Iterator[str]:
    """Yield the claims of a text without its given facts that nobody gave."""
    numbers = set(_NUMBER.findall(given)) | {word for word in known if word in NUMBER_WORDS}
    numbers |= {str(NUMBER_WORDS[word]) for word in numbers if word in NUMBER_WORDS}
    for number in _NUMBER.findall(rest):
        if number not in numbers:
            yield f'it states the number "{number}", which is not given'
    for word in _words(rest):
        if word in NUMBER_WORDS and word not in known and str(NUMBER_WORDS[word]) not in numbers:
            yield f'it states the number "{word}", which is not given'
    spaced = f" {' '.join(_words(rest))} "
    for kind, claims in CLAIMS.items():
        for claim in claims:
            if f" {claim} " in spaced and not _is_given(claim, known):
                yield f'it states the {kind} "{claim}", which is not given'
    given_nouns = set(map(_singular, known))
    for noun in dict.fromkeys(map(_singular, _called(_words(rest)))):
        if noun in KINDS - given_nouns:
            yield f'it calls the product a "{noun}"'


def _called(words: list[str]) -> Iterator[str]:
    """Yield the words after "is", "are", "this" and "these", up to the first preposition."""
    for index, word in enumerate(words):
        if word in _COPULAS:
            following = words[index + 1 : index + 1 + MAX_NOUN_PHRASE_LENGTH]
            yield from takewhile(lambda each: each not in _AFTER_NOUNS, following)


def _is_given(claim: str, known: set[str]) -> bool:
    return all(
        any(word == each or (len(word) > 4 and each.startswith(word[:5])) for each in known) for word in claim.split()
    )


def _repeated_gram(rest: str) -> str:
    seen: set[tuple[str, ...]] = set()
    for part in rest.split("\x00"):
        words = _words(part)
        for start in range(len(words) - GRAM_LENGTH + 1):
            gram = tuple(words[start : start + GRAM_LENGTH])
            if gram in seen:
                return " ".join(gram)
            seen.add(gram)
    return ""


def _normal(text: str) -> str:
    """Return a text for comparison: plain, composed, in lower case and with single spaces."""
    composed = unicodedata.normalize("NFC", plain_text(text)).replace("\u2019", "'")
    return " ".join(composed.casefold().split())


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
