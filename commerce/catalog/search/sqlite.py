"""Full text in SQLite: FTS5 tables, of which the English one has stems, and a trigram table of the words."""

from collections.abc import Collection, Sequence

from django.db import connection
from django.db.models import QuerySet

from commerce.catalog.models import Product
from commerce.catalog.search.permitted import exists_in
from commerce.catalog.search.words import ENGLISH

# bm25 weights of the columns: a word in the name counts more than in the description, and there more than in the shop.
RANKED = "rank MATCH 'bm25(10.0, 3.0, 1.0)'"
TABLES = {
    "commerce_search_text_en": "porter unicode61 remove_diacritics 2",
    "commerce_search_text": "unicode61 remove_diacritics 2",
}
TRIGRAMS = "commerce_search_trigram"
MIN_PREFIX_LENGTH = 4  # letters of a word that also finds longer ones, in languages without stems
TRIGRAM_LENGTH = 3


def take_lock() -> bool:
    """Return True: a transaction of SQLite is the only one that writes."""
    return True


def write_texts(rows: Sequence[tuple[int, str, str, str, str]]) -> None:
    """Replace the texts of products: id, language, name, description and shop."""
    remove_texts([row[0] for row in rows])
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.executemany(
                f"INSERT INTO {table} (rowid, language, name, description, shop) VALUES (%s, %s, %s, %s, %s)",  # nosec B608
                [row for row in rows if _table(row[1]) == table],
            )


def remove_texts(product_ids: Collection[int]) -> None:
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.executemany(f"DELETE FROM {table} WHERE rowid = %s", [[product_id] for product_id in product_ids])  # nosec B608


def matching_ids(words: Sequence[Sequence[str]], language: str, limit: int, products: "QuerySet[Product]") -> list[int]:
    """Return the ids of those of `products` with one of the words, best first. Each word is a list of its spellings."""
    match = " OR ".join(_expression(spelling, language) for spellings in words for spelling in spellings)
    return _select(f"{RANKED} ORDER BY rank", match, language, limit, products)


def has_match(word: str, language: str, products: "QuerySet[Product]") -> bool:
    return bool(_select("true", _expression(word, language), language, 1, products))


def names_with_prefix(words: Sequence[str], language: str, limit: int, products: "QuerySet[Product]") -> list[int]:
    """Return the ids of the newest of `products` whose name has all words, the last as a prefix."""
    *whole, prefix = words
    match = " AND ".join([*(_quote(word) for word in whole), f"{_quote(prefix)} *"])
    return _select("true ORDER BY rowid DESC", f"name : ({match})", language, limit, products)


def add_words(last_id: int) -> None:
    """Add the words after the last one with this id to the trigrams."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {TRIGRAMS} (rowid, word) SELECT id, word FROM commerce_search_searchword WHERE id > %s",  # nosec B608
            [last_id],
        )


def similar_words(word: str, language: str, limit: int) -> list[str]:
    trigrams = [word[start : start + TRIGRAM_LENGTH] for start in range(len(word) - TRIGRAM_LENGTH + 1)]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT w.word FROM {TRIGRAMS} t JOIN commerce_search_searchword w ON w.id = t.rowid "  # nosec B608
            f"WHERE {TRIGRAMS} MATCH %s AND w.language = %s ORDER BY rank LIMIT %s",
            [" OR ".join(map(_quote, trigrams)), language, limit],
        )
        return [found for (found,) in cursor.fetchall()]


def _table(language: str) -> str:
    return "commerce_search_text_en" if language == ENGLISH else "commerce_search_text"


def _select(rest: str, match: str, language: str, limit: int, products: "QuerySet[Product]") -> list[int]:
    table = _table(language)
    is_permitted, parameters = exists_in(products, f"{table}.rowid")
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT rowid FROM {table} WHERE {table} MATCH %s AND language = %s AND {is_permitted} "  # nosec B608
            f"AND {rest} LIMIT %s",
            [match, language, *parameters, limit],
        )
        return [product_id for (product_id,) in cursor.fetchall()]


def _expression(word: str, language: str) -> str:
    return f"{_quote(word)} *" if language != ENGLISH and len(word) >= MIN_PREFIX_LENGTH else _quote(word)


def _quote(word: str) -> str:
    return f'"{word}"'  # a word has letters and digits only
