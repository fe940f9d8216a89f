"""Search in the products by words and by meaning, similar products, and suggestions while a shopper types.

The index says which products match, and how well. Which of them a user may see, the products themselves say, so that a
hidden or deleted product never appears. Both lists are fused by reciprocal rank (Cormack, Clarke and Buettcher, 2009).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import QuerySet

from commerce.catalog.models import Product
from commerce.catalog.search.lookups import IdIn, products_with_images
from commerce.catalog.search.models import SearchDocument
from commerce.catalog.search.permitted import PermittedProducts
from commerce.catalog.search.spelling import spell_words
from commerce.catalog.search.text_index import text_index
from commerce.catalog.search.vectors.semantic import QueryComparison, similar_ids
from commerce.catalog.search.words import query_words, rank_words
from shared.api.errors import ValidationFailed
from shared.api.limits.query_limits import MAX_QUERY_SECONDS, QueryTimeout, limit_query_time

MAX_RESULTS = 1000  # best products of a query, which filters then narrow
MAX_SUGGESTIONS = 10
MAX_SUGGESTION_CANDIDATES = 100
# A list counts 1 / (RANK_OFFSET + rank) for a product, that of the words times a weight. Chosen by the queries of the
# benchmark `search`, whose figures therefore flatter them.
RANK_OFFSET = 10
TEXT_WEIGHTS = {"en": 0.3}  # in English, encoders know best
TEXT_WEIGHT = 1.0
# Products that are named as the query is: an encoder does not know the name of a brand.
NAME_WEIGHT = 2.0
MAX_OF_NAME = 50


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """Ids of the products that match, best first, and the words to highlight in them.

    `corrected_text` has the best correction in place of each misspelled word; it is empty if there is none.
    `is_semantic` says that products were also compared by meaning, `is_ranking` that the list has the order of the ids,
    and `is_whole` that it has all of them, because nothing else filters it.
    """

    product_ids: Sequence[int]
    words: Sequence[str]
    corrected_text: str = ""
    is_semantic: bool = False
    is_ranking: bool = False
    is_whole: bool = False

    def restrict(self, products: "QuerySet[Product]") -> "QuerySet[Product]":
        """Return those of `products` that match, in their own order."""
        return products.filter(IdIn(self.product_ids))


def search_result_of(request: Any) -> SearchResult:
    """Return the result of the search that a request asked for, which is empty without one."""
    result = getattr(request, "search_result", None)
    return result if isinstance(result, SearchResult) else SearchResult(product_ids=(), words=())


def page_of_results(
    result: SearchResult, products: "QuerySet[Product]", *, offset: int, limit: int
) -> tuple[list[Product], int]:
    """Return the products of a page, the best first if `result` is a ranking, and the number of all."""
    if not result.is_ranking:
        return list(products[offset : offset + limit]), products.order_by().count()
    ids = list(result.product_ids)
    if not result.is_whole:
        found = set(products.order_by().values_list("pk", flat=True))
        ids = [pk for pk in ids if pk in found]
    page = ids[offset : offset + limit]
    # Both have asked which ids the user may see, so these few rows are read without the condition of a thousand ids.
    rows = products_with_images(page)
    return [rows[pk] for pk in page if pk in rows], len(ids)


@contextmanager
def limit_search(parameter: str) -> Iterator[None]:
    """Raise ValidationFailed that names the parameter of the text if searching for it takes too long."""
    try:
        with limit_query_time(MAX_QUERY_SECONDS):
            yield
    except QueryTimeout:
        message = f"This search takes more than {MAX_QUERY_SECONDS:g} seconds. Send fewer or rarer words."
        raise ValidationFailed({parameter: [message]}) from None


def search(*, text: str, language: str, products: "QuerySet[Product]") -> SearchResult:
    """Return those of `products` in a language that match any word of a text, or are near to it in meaning."""
    if not query_words(text):
        return SearchResult(product_ids=(), words=())
    permitted, comparison = PermittedProducts(products), QueryComparison(text=text, language=language)
    result = search_words(text=text, language=language, permitted=permitted)
    nearest = comparison.nearest_ids(permitted)
    if nearest is None:
        return result
    named = _ids_of_name(text, language, permitted)
    if not named and result.corrected_text:
        named = _ids_of_name(result.corrected_text, language, permitted)
    text_weight = TEXT_WEIGHTS.get(language, TEXT_WEIGHT)
    fused = _fuse((named, NAME_WEIGHT), (nearest, 1.0), (result.product_ids, text_weight))
    return replace(result, product_ids=fused, is_semantic=True)


def search_words(*, text: str, language: str, permitted: PermittedProducts) -> SearchResult:
    """Return the permitted products in a language that match any word of a text."""
    index, words = text_index(), spell_words(query_words(text), language, permitted)
    ranked = rank_words(words)
    product_ids: list[int] = []
    if ranked:
        product_ids = permitted.best(lambda count: index.matching_ids(ranked, language, count), MAX_RESULTS)
    is_corrected = any(len(word.spellings) > 1 for word in words)
    return SearchResult(
        product_ids=product_ids,
        words=[spelling for word in words for spelling in word.spellings],
        corrected_text=" ".join(word.spellings[:2][-1] for word in words) if is_corrected else "",
    )


def similar_products(*, product: Product, products: "QuerySet[Product]", limit: int) -> list[Product]:
    """Return those of `products` in the language of a product that resemble it most, at most `limit`.

    Without vectors they are the newest of its type.
    """
    others = products.filter(language=product.language).exclude(pk=product.pk)
    ids = similar_ids(product=product, permitted=PermittedProducts(others), limit=limit)
    if not ids:
        return list(others.filter(type=product.type_id).order_by("-pk")[:limit])
    found = others.in_bulk(ids)
    return [found[pk] for pk in ids if pk in found]


def _ids_of_name(text: str, language: str, permitted: PermittedProducts) -> list[int]:
    """Return the ids of the permitted products that have all words of a text in their names, the last as a prefix."""
    index, words = text_index(), query_words(text)
    return permitted.best(lambda count: index.names_with_prefix(words, language, count), MAX_OF_NAME)


def _fuse(*lists: tuple[Sequence[int], float]) -> list[int]:
    """Return the ids of lists with weights, by the sum of the weights divided by the ranks."""
    scores: dict[int, float] = {}
    for ids, weight in lists:
        for rank, product_id in enumerate(ids, 1):
            scores[product_id] = scores.get(product_id, 0.0) + weight / (RANK_OFFSET + rank)
    return sorted(scores, key=lambda product_id: -scores[product_id])[:MAX_RESULTS]


def search_all_languages(*, text: str, products: "QuerySet[Product]") -> list[int]:
    """Return the ids of those of `products` that match any word of a text, in any language."""
    languages = SearchDocument.objects.order_by().values_list("language", flat=True).distinct()
    permitted = PermittedProducts(products)
    results = [search_words(text=text, language=language, permitted=permitted) for language in languages]
    return [product_id for result in results for product_id in result.product_ids]


def suggest(*, text: str, language: str, products: "QuerySet[Product]") -> list[Product]:
    """Return those of `products` whose names have the words of a text, the last of which may be unfinished.

    Names that begin with the text are first.
    """
    words = query_words(text)
    if not words:
        return []
    index = text_index()
    candidates = PermittedProducts(products).best(
        lambda count: index.names_with_prefix(words, language, count), MAX_SUGGESTION_CANDIDATES
    )
    beginning = text.strip().lower()
    found = products.filter(IdIn(candidates)).only("name", "slug").order_by("-pk")
    return sorted(found, key=lambda product: not product.name.lower().startswith(beginning))[:MAX_SUGGESTIONS]
