"""Rules that a description must keep before a shop shows it: it states the given facts, and no others.

Words are compared in lower case. The lists of claims and of uses, and the grammar of facts, are English; the other
rules hold in every language.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import takewhile

from commerce.descriptions.text.fact_forms import fact_places, singular, wrong_forms
from commerce.descriptions.text.plain_text import plain_text
from commerce.descriptions.text.prompts import DescriptionRequest, is_english
from commerce.descriptions.text.vocabulary import CLAIMS, KINDS, NUMBER_WORDS, PLAIN_WORDS, USES

GRAM_LENGTH = 5
STEM_LENGTH = 5  # letters, by which words are taken for forms of one word
ENDS = (".", "!", "?", "…", "。", "\uff01", "\uff1f", "؟", "।")  # two are the full-width ! and ?
CLOSING = "\"'”\u2019»)]"
FACT_MARK = "\x00"
_PURPOSE = re.compile(r"\b(?:for|to|while|when) ((?:[\w'-]+ ){0,2}[\w'-]+)")
_WRONG_ARTICLE = re.compile(
    r"(?<![\w-])(?:a (?:[aeio](?!ne\b|nce\b|u)|u[lmp]|un(?!i)|urb)\w+|an [bcdgjkpqtvwyz][\w-]*)"
)
_ONE = re.compile(r"(?:\A|[.!?] )(?:(?:it|this) (?!is our\b)\w|here is )")
_MANY = re.compile(r"(?:\A|[.!?] )(?:(?:they|these) \w|here are )")
_WORD = re.compile(r"\w+(?:['\u2019]\w+)?")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LABEL = re.compile(
    r"^[ \t*#>-]{0,9}(?:product name|keywords?|tone|length|language|note|description|title)[ \t*]{0,9}:", re.I | re.M
)
MAX_NOUN_PHRASE_LENGTH = 5  # words
MAX_PHRASES = 50  # that are marked in a text
_COPULAS = frozenset({"is", "are", "this", "these"})
_AFTER_NOUNS = frozenset({
    "about", "above", "and", "around", "as", "at", "behind", "beside", "but", "by", "for", "from", "in", "inside",
    "into", "like", "near", "next", "of", "off", "on", "onto", "or", "over", "so", "than", "that", "through", "to",
    "under", "when", "where", "which", "who", "with", "without", "you", "your",
})  # fmt: skip


def broken_rules(text: str, request: DescriptionRequest, *, ended: bool, is_plain: bool = False) -> list[str]:
    """Return what is wrong with a plain text, each as the end of a sentence, or nothing for one that may be shown.

    ended: whether the model ended the text itself. is_plain: every word must be given or a plain one, as the model was
    trained. A free prompt gives no facts to compare a text with.
    """
    if not request.product_name:
        return []
    return list(_broken_rules(text, request, ended, is_plain))


def unsupported_phrases(text: str, request: DescriptionRequest, *, is_plain: bool = False) -> list[str]:
    """Return the words of a text, in lower case, by which it claims what the request does not give.

    They are numbers, materials and other claims, kinds of products and uses, and with `is_plain` all words that are
    neither given nor plain, MAX_PHRASES at most. A kind is in the singular; a phrase within another is left out.
    """
    given = given_texts(request)
    known, rest = set(words_of(" ".join(given))), without(normal(text), given)
    found = [phrase for _rule, phrase in _invented(rest, known, " ".join(given))]
    if is_english(request.language):
        found += [phrase for _rule, phrase in _uses(rest, known)]
    if is_plain:
        found += unknown_words(rest, known)
    phrases = list(dict.fromkeys(found))[:MAX_PHRASES]
    return [phrase for phrase in phrases if not any(_is_part(phrase, other) for other in phrases)]


def missing_facts(text: str, request: DescriptionRequest) -> list[str]:
    """Return the given facts that a text does not mention."""
    written, name = normal(text), normal(request.product_name)
    return [fact for fact in (request.product_name, *request.keywords) if not _states(written, normal(fact), name)]


def plain_statement(request: DescriptionRequest) -> str:
    """Return the given facts as one line of plain text, in the words of the shop."""
    name, *facts = [plain_text(fact) or fact.strip() for fact in (request.product_name, *request.keywords)]
    line = plain_text(" ".join(f"{name}: {', '.join(facts)}".removesuffix(": ").split()))
    return line if line.endswith(ENDS) else f"{line}."


def _broken_rules(text: str, request: DescriptionRequest, ended: bool, is_plain: bool) -> Iterator[str]:
    given = given_texts(request)
    written = normal(text)
    if not ended or not text.rstrip(CLOSING).endswith(ENDS):
        yield "it does not end"
    name = normal(request.product_name)
    for fact in given:
        if not _states(written, fact, name) or (is_plain and not _facts_pattern([fact]).search(written)):
            yield f'it lacks "{fact}"'
    if label := _LABEL.search(text):
        yield f'it repeats the request: "{label[0].strip()}"'
    known = set(words_of(" ".join(given)))
    rest = without(written, given)
    yield from (rule.format(phrase) for rule, phrase in _invented(rest, known, " ".join(given)))
    if repeated := _repeated_gram(rest):
        yield f'it repeats "{repeated}"'
    if is_english(request.language):
        yield from (rule.format(phrase) for rule, phrase in _uses(rest, known))
        yield from _bad_grammar(written, name, given)
    if is_plain and (unknown := next(unknown_words(rest, known), "")):
        yield f'it says "{unknown}", which is not given'


def _states(written: str, fact: str, name: str) -> bool:
    """Return whether a text has a fact: beside the product's name, or as words of it. "Oakhurst" does not say "oak"."""
    if fact not in name or fact == name or _facts_pattern([fact]).search(name):
        return fact in written
    return fact in written.replace(name, " ")


def given_texts(request: DescriptionRequest) -> list[str]:
    """Return the product's name and the keywords for comparison."""
    return [fact for fact in map(normal, (request.product_name, *request.keywords)) if fact]


def without(written: str, given: list[str], *, name: str = "", name_mark: str = FACT_MARK) -> str:
    """Return a text with a mark in place of each given fact. name_mark: that of the name, if it is to be told apart."""
    facts = _facts_pattern(fact for fact in given if fact in written)
    return facts.sub(lambda found: f" {name_mark if found[0] == name else FACT_MARK} ", written)


def _facts_pattern(facts: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of facts that are no parts of longer words or numbers. The longest one is found."""
    any_fact = "|".join(map(re.escape, sorted(facts, key=len, reverse=True))) or "(?!)"
    return re.compile(rf"(?<!\w)(?<!\d[.,])(?:{any_fact})(?!\w|[.,]\d)")


def _shortened(written: str, given: list[str]) -> str:
    """Return a text with the first letters of each given fact, and a mark for the rest."""
    return _facts_pattern(given).sub(lambda found: "".join(takewhile(str.isalnum, found[0])) + FACT_MARK, written)


def _uses(rest: str, known: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the uses, users and occasions of a text that nobody gave, each after the rule that it breaks."""
    spaced, stems = f" {' '.join(words_of(rest))} ", _stems(known)
    for use in USES:
        if f" {use} " in spaced and not _is_given(use, stems):
            yield 'it names the use "{}", which is not given', use
    for phrase in _PURPOSE.findall(rest):
        if any(word not in PLAIN_WORDS and not _is_given(word, stems) for word in words_of(phrase)):
            yield 'it names the use "{}", which is not given', phrase


def unknown_words(rest: str, known: set[str]) -> Iterator[str]:
    """Yield the words of a text that are neither given nor plain."""
    nouns = set(map(singular, known))
    for word in words_of(rest):
        plain = word in PLAIN_WORDS or word.partition("'")[0] in PLAIN_WORDS or word.isdecimal()
        if not plain and singular(word) not in nouns and word not in known:
            yield word


def _bad_grammar(written: str, name: str, given: list[str]) -> Iterator[str]:
    for place in wrong_forms(fact_places(written, name, [fact for fact in given if fact != name])):
        yield f'it puts "{place.fact}" after "{place.frame.value}"'
    own = _shortened(written, given)
    if article := _WRONG_ARTICLE.search(own):
        yield f'it has the wrong article in "{article[0]}"'
    if _ONE.search(own) and _MANY.search(own):
        yield "it speaks of one product and of several"


def _invented(rest: str, known: set[str], given: str) -> Iterator[tuple[str, str]]:
    """Yield the claims of a text without its given facts that nobody gave, each after the rule that it breaks."""
    numbers = set(_NUMBER.findall(given)) | {word for word in known if word in NUMBER_WORDS}
    numbers |= {str(NUMBER_WORDS[word]) for word in numbers if word in NUMBER_WORDS}
    for number in _NUMBER.findall(rest):
        if number not in numbers:
            yield 'it states the number "{}", which is not given', number
    for word in words_of(rest):
        if word in NUMBER_WORDS and word not in known and str(NUMBER_WORDS[word]) not in numbers:
            yield 'it states the number "{}", which is not given', word
    spaced, stems = f" {' '.join(words_of(rest))} ", _stems(known)
    for kind, claims in CLAIMS.items():
        for claim in claims:
            if f" {claim} " in spaced and not _is_given(claim, stems):
                yield f'it states the {kind} "{{}}", which is not given', claim
    given_nouns = set(map(singular, known))
    for noun in dict.fromkeys(map(singular, _called(words_of(rest)))):
        if noun in KINDS - given_nouns:
            yield 'it calls the product a "{}"', noun


def _called(words: list[str]) -> Iterator[str]:
    """Yield the words after "is", "are", "this" and "these", up to the first preposition."""
    for index, word in enumerate(words):
        if word in _COPULAS:
            following = words[index + 1 : index + 1 + MAX_NOUN_PHRASE_LENGTH]
            yield from takewhile(lambda each: each not in _AFTER_NOUNS, following)


def _stems(words: set[str]) -> set[str]:
    return {word[:STEM_LENGTH] for word in words}


def _is_part(phrase: str, other: str) -> bool:
    return phrase != other and f" {phrase} " in f" {other} "


def _is_given(claim: str, stems: set[str]) -> bool:
    return all(word[:STEM_LENGTH] in stems for word in claim.split())


def _repeated_gram(rest: str) -> str:
    seen: set[tuple[str, ...]] = set()
    for part in rest.split(FACT_MARK):
        words = words_of(part)
        for start in range(len(words) - GRAM_LENGTH + 1):
            gram = tuple(words[start : start + GRAM_LENGTH])
            if gram in seen:
                return " ".join(gram)
            seen.add(gram)
    return ""


def normal(text: str) -> str:
    """Return a text for comparison: plain, composed, in lower case and with single spaces."""
    composed = unicodedata.normalize("NFC", plain_text(text)).replace("\u2019", "'")
    return " ".join(composed.casefold().split())


def words_of(text: str) -> list[str]:
    """Return the words of a text, each with what follows its apostrophe."""
    return _WORD.findall(text)
