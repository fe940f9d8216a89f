"""Full text in SQLite: FTS5 tables, of which the English one has stems, and a trigram table of the words."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from django.db import connection

from commerce.catalog.search.words import ENGLISH, MAX_RANKED, MAX_SELECTED, FoundWord, RankedWord

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


def matching_ids(words: Sequence[RankedWord], language: str, limit: int) -> list[int]:
    """Return the ids of the products with one of the words that select, best first."""
    table, (condition, parameters) = _table(language), _of_language(language)
    selecting = _any_of([word for word in words if word.selects], language)
    newest, newest_parameters = "", list[Any]()
    if sum(word.count for word in words if word.selects) > MAX_SELECTED:
        newest = (
            f"AND rowid >= (SELECT min(rowid) FROM (SELECT rowid FROM {table} WHERE {table} MATCH %s "  # nosec B608
            "ORDER BY rowid DESC LIMIT %s))"
        )
        newest_parameters = [selecting, MAX_RANKED]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT rowid FROM {table} WHERE {table} MATCH %s {condition} AND {RANKED} {newest} "  # nosec B608
            "ORDER BY rank LIMIT %s",
            [_selected_and_ranked(selecting, words, language), *parameters, *newest_parameters, limit],
        )
        return [product_id for (product_id,) in cursor.fetchall()]


def find_words(words: Sequence[str], language: str, *, max_count: int, max_ids: int) -> list[FoundWord]:
    """Return each word with the number of its products, at most `max_count`, and the ids of some."""
    counts = count_matches([[word] for word in words], language, max_count)
    found = zip(counts, _ids_with(words, language, max_ids), strict=True)
    return [FoundWord(count, product_ids) for count, product_ids in found]


def count_matches(words: Sequence[Sequence[str]], language: str, limit: int) -> list[int]:
    """Return for each word, a list of spellings, the number of products with it, at most `limit`."""
    table = _table(language)
    count = f"(SELECT count(*) FROM (SELECT rowid FROM {table} WHERE {table} MATCH %s LIMIT %s))"  # nosec B608
    parameters = [(" OR ".join(_expression(spelling, language) for spelling in word), limit) for word in words]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join([count] * len(words))}", [value for pair in parameters for value in pair])
        return [int(number) for number in cursor.fetchone()]


def _ids_with(words: Sequence[str], language: str, limit: int) -> list[list[int]]:
    """Return for each word the ids of some products with it, at most `limit`."""
    table, (condition, parameters) = _table(language), _of_language(language)
    found = (
        f"(SELECT json_group_array(rowid) FROM (SELECT rowid FROM {table} WHERE {table} MATCH %s {condition} LIMIT %s))"  # nosec B608
    )
    values: list[str | int] = []
    for word in words:
        values += [_expression(word, language), *parameters, limit]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join([found] * len(words))}", values)
        return [json.loads(ids) for ids in cursor.fetchone()]


def names_with_prefix(words: Sequence[str], language: str, limit: int) -> list[int]:
    """Return the ids of the newest products whose name has all words, the last as a prefix."""
    *whole, prefix = words
    match = " AND ".join([*(_quote(word) for word in whole), f"{_quote(prefix)} *"])
    return _select(f"name : ({match})", language, limit, "ORDER BY rowid DESC")


def add_words(last_id: int) -> None:
    """Add the words after the last one with this id to the trigrams."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {TRIGRAMS} (rowid, word) SELECT id, word FROM commerce_search_searchword WHERE id > %s",  # nosec B608
            [last_id],
        )


def similar_words(words: Sequence[str], language: str, limit: int) -> list[list[str]]:
    """Return for each word some that resemble it, at most `limit`."""
    return [_similar_words(word, language, limit) for word in words]


def _similar_words(word: str, language: str, limit: int) -> list[str]:
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


def _of_language(language: str) -> tuple[str, list[str]]:
    """Return the condition that a row is in a language, which reads its texts. The English table has no others."""
    return ("", []) if language == ENGLISH else ("AND language = %s", [language])


def _select(match: str, language: str, limit: int, order: str) -> list[int]:
    table, (condition, parameters) = _table(language), _of_language(language)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT rowid FROM {table} WHERE {table} MATCH %s {condition} {order} LIMIT %s",  # nosec B608
            [match, *parameters, limit],
        )
        return [product_id for (product_id,) in cursor.fetchall()]


def _selected_and_ranked(selecting: str, words: Sequence[RankedWord], language: str) -> str:
    """Return the expression of rows with a word that selects, which all words rank."""
    ranking = _any_of([word for word in words if not word.selects], language)
    return f"({selecting}) OR (({selecting}) AND ({ranking}))" if ranking else selecting


def _any_of(words: Sequence[RankedWord], language: str) -> str:
    return " OR ".join(_expression(spelling, language) for word in words for spelling in word.spellings)


def _expression(word: str, language: str) -> str:
    return f"{_quote(word)} *" if language != ENGLISH and len(word) >= MIN_PREFIX_LENGTH else _quote(word)


def _quote(word: str) -> str:
    return f'"{word}"'  # a word has letters and digits only
