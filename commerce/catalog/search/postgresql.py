"""Full text in PostgreSQL: a tsvector column with a GIN index, and trigrams of the words where pg_trgm is installed."""

from collections.abc import Collection, Sequence
from functools import cache

from django.db import connection
from django.db.models.functions import Length

from commerce.catalog.search.models import SearchWord
from commerce.catalog.search.words import MAX_RANKED, FoundWord, RankedWord

DOCUMENTS = "commerce_search_searchdocument"
CONFIGURATIONS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian",
    "nb": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish",
    "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
# Weights of D (unused), shop, description and name.
WEIGHTS = "{0, 0.1, 0.3, 1.0}"
LOCK = 0x53544F41_5345  # of this database, for those who write the index
MAX_LENGTH_DIFFERENCE = 2
MAX_SCANNED_WORDS = 2000  # without trigrams


def take_lock() -> bool:
    """Take the lock of the index until the transaction ends. Return False while another process has it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
        return bool(cursor.fetchone()[0])


def write_texts(rows: Sequence[tuple[int, str, str, str, str]]) -> None:
    """Replace the texts of products: id, language, name, description and shop. Their documents exist."""
    with connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE {DOCUMENTS} SET text = setweight(to_tsvector(%s::regconfig, %s), 'A') || "  # nosec B608
            "setweight(to_tsvector(%s::regconfig, %s), 'B') || setweight(to_tsvector(%s::regconfig, %s), 'C') "
            "WHERE product_id = %s",
            [[*_with_configuration(texts, language), product_id] for product_id, language, *texts in rows],
        )


def remove_texts(product_ids: Collection[int]) -> None:
    """Do nothing: a text is a column of its document."""


def matching_ids(words: Sequence[RankedWord], language: str, limit: int) -> list[int]:
    """Return the ids of the products with one of the words that select, best first.

    ts_rank knows no rare words, so each word counts by the logarithm of how few documents have it.
    """
    selecting = [spelling for word in words if word.selects for spelling in word.spellings]
    score = " + ".join(f"ts_rank(%s, text, {_query(word.spellings)}, 1) * ln(1 + size / %s)" for word in words)
    parameters: list[str | float] = []
    for word in words:
        parameters += [WEIGHTS, *_with_configuration(word.spellings, language), float(word.count + 1)]
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH candidates AS MATERIALIZED (SELECT product_id, text FROM {DOCUMENTS} "  # nosec B608
            f"WHERE text @@ ({_query(selecting)}) AND language = %s LIMIT %s), "
            "size AS (SELECT greatest(reltuples, 1)::float AS size FROM pg_class WHERE oid = %s::regclass) "
            f"SELECT product_id FROM candidates CROSS JOIN size ORDER BY {score} DESC, product_id DESC LIMIT %s",
            [*_with_configuration(selecting, language), language, MAX_RANKED, DOCUMENTS, *parameters, limit],
        )
        return [product_id for (product_id,) in cursor.fetchall()]


def find_words(words: Sequence[str], language: str, *, max_count: int, max_ids: int) -> list[FoundWord]:
    """Return each word with the number of its products, at most `max_count`, and the ids of some."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT cardinality(ids), ids[1:%s], numnode(query) > 0 "  # nosec B608
            "FROM unnest(%s::text[]) WITH ORDINALITY AS word (text, number) "
            "CROSS JOIN LATERAL (SELECT plainto_tsquery(%s::regconfig, word.text) AS query OFFSET 0) parsed "
            f"CROSS JOIN LATERAL (SELECT ARRAY(SELECT product_id FROM {DOCUMENTS} d "
            "WHERE d.text @@ query AND language = %s LIMIT %s) AS ids OFFSET 0) found ORDER BY number",
            [max_ids, list(words), _configuration(language), language, max_count],
        )
        return [FoundWord(*row) for row in cursor.fetchall()]


def count_matches(words: Sequence[Sequence[str]], language: str, limit: int) -> list[int]:
    """Return for each word, a list of spellings, the number of products with it, at most `limit`."""
    counts = [
        f"(SELECT count(*) FROM (SELECT FROM {DOCUMENTS} WHERE text @@ ({_query(word)}) AND language = %s "  # nosec B608
        "LIMIT %s) found)"
        for word in words
    ]
    parameters: list[str | int] = []
    for word in words:
        parameters += [*_with_configuration(word, language), language, limit]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(counts)}", parameters)
        return [int(count) for count in cursor.fetchone()]


def names_with_prefix(words: Sequence[str], language: str, limit: int) -> list[int]:
    """Return the ids of the newest products whose name has all words, the last as a prefix."""
    query = " & ".join([*(f"'{word}':A" for word in words[:-1]), f"'{words[-1]}':*A"])  # letters and digits only
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT product_id FROM {DOCUMENTS} WHERE text @@ to_tsquery(%s::regconfig, %s) AND language = %s "  # nosec B608
            "ORDER BY product_id DESC LIMIT %s",
            [_configuration(language), query, language, limit],
        )
        return [product_id for (product_id,) in cursor.fetchall()]


def add_words(last_id: int) -> None:
    """Do nothing: the index of `text_indexes` follows the table."""


def similar_words(words: Sequence[str], language: str, limit: int) -> list[list[str]]:
    """Return for each word some that resemble it, at most `limit`."""
    if not has_trigrams():
        return [_words_with_first_letter(word, language) for word in words]
    similar_to = (
        "ARRAY(SELECT word FROM commerce_search_searchword WHERE length(word) BETWEEN %s AND %s "
        "AND UPPER(word::text) %% UPPER(%s) AND language = %s "
        "ORDER BY similarity(UPPER(word::text), UPPER(%s)) DESC LIMIT %s)"
    )
    parameters = [value for word in words for value in (*_similar_lengths(word), word, language, word, limit)]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join([similar_to] * len(words))}", parameters)
        return [list(found) for found in cursor.fetchone()]


@cache
def has_trigrams() -> bool:
    """Return whether pg_trgm is installed, which this process asks once."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_trgm')")
        return bool(cursor.fetchone()[0])


def _words_with_first_letter(word: str, language: str) -> list[str]:
    words = SearchWord.objects.filter(language=language, word__startswith=word[0])
    shortest, longest = _similar_lengths(word)
    near = words.annotate(length=Length("word")).filter(length__gte=shortest, length__lte=longest)
    return list(near.values_list("word", flat=True)[:MAX_SCANNED_WORDS])


def _similar_lengths(word: str) -> tuple[int, int]:
    return len(word) - MAX_LENGTH_DIFFERENCE, len(word) + MAX_LENGTH_DIFFERENCE


def _configuration(language: str) -> str:
    return CONFIGURATIONS.get(language[:2].lower(), "simple")


def _query(spellings: Sequence[str]) -> str:
    """Return the SQL of a tsquery that any spelling matches; each has a configuration and a text as parameters."""
    return " || ".join(["plainto_tsquery(%s::regconfig, %s)"] * len(spellings))


def _with_configuration(spellings: Sequence[str], language: str) -> list[str]:
    return [value for spelling in spellings for value in (_configuration(language), spelling)]
