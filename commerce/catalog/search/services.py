"""Search in the products, and suggestions while a shopper types.

The index says which products match, and how well. Which of them a user may see, the products themselves say in the
same query, so that a hidden or deleted product never appears.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, Func, QuerySet

from commerce.catalog.models import Product
from commerce.catalog.search.models import SearchDocument
from commerce.catalog.search.spelling import spellings
from commerce.catalog.search.text_index import text_index
from commerce.catalog.search.words import query_words
from shared.api.errors import ValidationFailed
from shared.api.limits.query_limits import MAX_QUERY_SECONDS, QueryTimeout, limit_query_time

MAX_RESULTS = 1000  # best products of a query, which filters then narrow
MAX_SUGGESTIONS = 10
MAX_SUGGESTION_CANDIDATES = 100


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """Ids of the products that match, best first, and the words to highlight in them."""

    product_ids: Sequence[int]
    words: Sequence[str]

    def restrict(self, products: "QuerySet[Product]") -> "QuerySet[Product]":
        """Return those of `products` that match, in their own order."""
        return products.filter(pk__in=self.product_ids)

    def order(self, products: "QuerySet[Product]") -> "QuerySet[Product]":
        """Return those of `products` that match, best first."""
        return self.restrict(products).order_by(_Position(self.product_ids))


def search_result_of(request: Any) -> SearchResult:
    """Return the result of the search that a request asked for, which is empty without one."""
    result = getattr(request, "search_result", None)
    return result if isinstance(result, SearchResult) else SearchResult(product_ids=(), words=())


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
    """Return those of `products` in a language that match any word of a text."""
    words = [spellings(word, language, products) for word in query_words(text)]
    product_ids = text_index().matching_ids(words, language, MAX_RESULTS, products) if words else []
    return SearchResult(product_ids=product_ids, words=[spelling for word in words for spelling in word])


def search_all_languages(*, text: str) -> list[int]:
    """Return the ids of the products that match any word of a text, in any language."""
    languages = SearchDocument.objects.order_by().values_list("language", flat=True).distinct()
    products = Product.objects.live()
    results = [search(text=text, language=language, products=products) for language in languages]
    return [product_id for result in results for product_id in result.product_ids]


def suggest(*, text: str, language: str, products: "QuerySet[Product]") -> list[Product]:
    """Return those of `products` whose names have the words of a text, the last of which may be unfinished.

    Names that begin with the text are first.
    """
    words = query_words(text)
    if not words:
        return []
    candidates = text_index().names_with_prefix(words, language, MAX_SUGGESTION_CANDIDATES, products)
    beginning = text.strip().lower()
    found = products.filter(pk__in=candidates).only("name", "slug").order_by("-pk")
    return sorted(found, key=lambda product: not product.name.lower().startswith(beginning))[:MAX_SUGGESTIONS]


class _Position(Func):
    """Position of a product's id in a list of ids."""

    output_field = BigIntegerField()

    def __init__(self, ids: Sequence[int], **extra: Any) -> None:
        super().__init__("pk", **extra)
        self._ids = ids

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        column, parameters = compiler.compile(self.source_expressions[0])
        return f"array_position(%s::bigint[], {column})", [list(self._ids), *parameters]

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        column, parameters = compiler.compile(self.source_expressions[0])
        return f"instr(%s, ',' || {column} || ',')", [f",{','.join(map(str, self._ids))},", *parameters]
