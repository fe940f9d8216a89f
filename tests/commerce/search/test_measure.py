"""The judged measure of product search is as large and as hard as it says."""

import pytest

from tests.benchmarks.commerce._search_measure import (
    LANGUAGES,
    JudgedQuery,
    Quality,
    load,
    measure,
    shares_words,
)


def test_the_english_measure_has_200_queries_over_1000_products_of_40_kinds() -> None:
    products, queries = load("en")
    assert (len(queries), len(products), len({product.kind for product in products})) == (200, 1000, 40)


@pytest.mark.parametrize("language", LANGUAGES)
def test_at_least_60_percent_of_the_queries_share_no_content_word_with_their_products(language: str) -> None:
    products, queries = load(language)
    sharing = [query.text for query in queries if shares_words(query, products, language)]
    assert len(sharing) <= 0.4 * len(queries), sharing


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_two_queries_and_no_two_products_are_equal(language: str) -> None:
    products, queries = load(language)
    assert len({query.text for query in queries}) == len(queries)
    assert len({product.name for product in products}) == len(products)


def test_only_the_first_right_product_within_ten_counts() -> None:
    queries = [JudgedQuery("first", 1), JudgedQuery("fourth", 4), JudgedQuery("eleventh", 11), JudgedQuery("none", 99)]
    results = list(range(1, 20))
    assert measure(queries, lambda text: results) == Quality(mrr=(1 + 1 / 4) / 4, recall=0.5)
