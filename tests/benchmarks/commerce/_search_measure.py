"""The judged measure of product search: products, shoppers' queries, and the products that answer each query.

Each file of `search_measure` has one language. `# kind` begins a kind of products; each line below it is an item, its
description and a query: `name | description | query`. Each item is sold by five makers, and all five answer its query.
"""

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "search_measure"
LANGUAGES = ("en", "de", "es")
TOP = 10  # results that a shopper reads
MAKERS = ("Brunvale", "Quellmar", "Oakhurst", "Fjordline", "Ansgar")
# A sentence about the maker's products. It says nothing about what they are for.
MAKER_TEXTS = {
    "en": (
        "Made in small batches by a family firm.",
        "With a guarantee of three years.",
        "Designed in the north and packed in cardboard.",
        "Awarded for its plain design.",
        "Repaired free of charge by the maker.",
    ),
    "de": (
        "In kleinen Serien von einem Familienbetrieb gefertigt.",
        "Mit drei Jahren Garantie.",
        "Im Norden entworfen und in Pappe verpackt.",
        "Für schlichte Gestaltung ausgezeichnet.",
        "Wird vom Hersteller kostenlos repariert.",
    ),
    "es": (
        "Hecho en series pequeñas por una empresa familiar.",
        "Con garantía de tres años.",
        "Pensado en el norte y envuelto en cartón.",
        "Premiado por su forma sencilla.",
        "El fabricante lo repara gratis.",
    ),
}
# Words without content, which a query and a product may share.
STOP_WORDS = {
    "en": "a about am an and are as at be by can do does for from go has have i if in into is it its me my no not of "
    "off on or our so that the their them they this to too two up us was what when where which while who will with "
    "without you your something thing",
    "de": "als am an auf aus bei bis das dem den der des die durch ein eine einem einen einer es etwas für hat habe "
    "ich im in ins ist kein keine keinen man mein meine meinen meiner meinem mich mir mit nach nicht ohne ob sich "
    "sie sind so soll sollen über um und von vom was wer wie wird wo wohin zu zum zur zwei",
    "es": "a al con de del desde dónde el ella en es esta este la las lo los me mi mis muy no o para pero por que se "
    "si sin su sus te tengo tu un una y dos hasta",
}


@dataclass(frozen=True)
class JudgedProduct:
    """A product of the measure, with the number of its item."""

    item: int
    kind: str
    maker: str
    name: str
    description: str


@dataclass(frozen=True)
class JudgedQuery:
    """A shopper's query. The products of `item` answer it."""

    text: str
    item: int


@dataclass(frozen=True)
class Quality:
    """Mean reciprocal rank of the first right product within the first ten, and the share of queries that have one."""

    mrr: float
    recall: float


def load(language: str) -> tuple[list[JudgedProduct], list[JudgedQuery]]:
    """Return the products and the queries in a language."""
    products, queries, kind, item = [], [], "", 0
    for line in (FOLDER / f"{language}.txt").read_text().splitlines():
        if line.startswith("# "):
            kind = line.removeprefix("# ")
            continue
        name, description, query = (part.strip() for part in line.split("|"))
        for maker, text in zip(MAKERS, MAKER_TEXTS[language], strict=True):
            products.append(JudgedProduct(item, kind, maker, f"{maker} {name}", f"{description} {text}"))
        queries.append(JudgedQuery(query, item))
        item += 1
    return products, queries


def content_words(text: str, language: str) -> set[str]:
    """Return the lower-case words without stop words, each without the ending of its plural."""
    words = set(re.findall(r"\w+", text.lower())) - set(STOP_WORDS[language].split())
    return {re.sub(r"(?<=\w{3})(en|es|e|n|s)$", "", word) for word in words}


def shares_words(query: JudgedQuery, products: Sequence[JudgedProduct], language: str) -> bool:
    """Return whether a product that answers the query has one of its content words."""
    texts = " ".join(f"{product.name} {product.description}" for product in products if product.item == query.item)
    return bool(content_words(query.text, language) & content_words(texts, language))


def measure(queries: Collection[JudgedQuery], search: Callable[[str], Sequence[int]]) -> Quality:
    """Measure a search, which returns the items of its results, best first."""
    ranks = []
    for query in queries:
        results = list(search(query.text))[:TOP]
        ranks.append(results.index(query.item) + 1 if query.item in results else math.inf)
    return Quality(mrr=sum(1 / rank for rank in ranks) / len(ranks), recall=sum(r <= TOP for r in ranks) / len(ranks))
