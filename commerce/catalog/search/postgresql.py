"""Full text in PostgreSQL: a tsvector column with a GIN index, and trigrams of the words where pg_trgm is installed."""

from collections.abc import Collection, Sequence

from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Length

from commerce.catalog.models import Product
from commerce.catalog.search.models import SearchWord
from commerce.catalog.search.permitted import exists_in

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


def matching_ids(words: Sequence[Sequence[str]], language: str, limit: int, products: "QuerySet[Product]") -> list[int]:
    """Return the ids of those of `products` with one of the words, best first. Each word is a list of its spellings.

    ts_rank knows no rare words, so each word counts by the logarithm of how few documents have it.
    """
    queries = " UNION ALL ".join(f"SELECT {number}, {_query(word)}" for number, word in enumerate(words))
    spellings = [spelling for word in words for spelling in word]
    is_permitted, parameters = exists_in(products, "d.product_id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH queries (word, query) AS MATERIALIZED ({queries}), "  # nosec B608
            "hits AS MATERIALIZED (SELECT q.word, d.product_id, ts_rank(%s, d.text, q.query, 1) AS rank "
            f"FROM queries q JOIN {DOCUMENTS} d ON d.text @@ q.query WHERE d.language = %s AND {is_permitted}), "
            "words AS (SELECT word, ln(1 + (SELECT greatest(reltuples, 1) FROM pg_class WHERE oid = %s::regclass) "
            "/ count(*)) AS weight FROM hits GROUP BY word) "
            "SELECT product_id FROM hits JOIN words USING (word) GROUP BY product_id "
            "ORDER BY sum(rank * weight) DESC, product_id DESC LIMIT %s",
            [*_with_configuration(spellings, language), WEIGHTS, language, *parameters, DOCUMENTS, limit],
        )
        return [product_id for (product_id,) in cursor.fetchall()]


def has_match(word: str, language: str, products: "QuerySet[Product]") -> bool:
    is_permitted, parameters = exists_in(products, "d.product_id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT numnode(q.query) = 0 OR EXISTS (SELECT 1 FROM {DOCUMENTS} d WHERE d.text @@ q.query AND "  # nosec B608
            f"d.language = %s AND {is_permitted}) FROM (SELECT {_query([word])}) q (query)",
            [language, *parameters, *_with_configuration([word], language)],
        )
        return bool(cursor.fetchone()[0])


def names_with_prefix(words: Sequence[str], language: str, limit: int, products: "QuerySet[Product]") -> list[int]:
    """Return the ids of the newest of `products` whose name has all words, the last as a prefix."""
    is_permitted, parameters = exists_in(products, f"{DOCUMENTS}.product_id")
    query = " & ".join([*(f"'{word}':A" for word in words[:-1]), f"'{words[-1]}':*A"])  # letters and digits only
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT product_id FROM {DOCUMENTS} WHERE text @@ to_tsquery(%s::regconfig, %s) AND language = %s "  # nosec B608
            f"AND {is_permitted} ORDER BY product_id DESC LIMIT %s",
            [_configuration(language), query, language, *parameters, limit],
        )
        return [product_id for (product_id,) in cursor.fetchall()]


def add_words(last_id: int) -> None:
    """Do nothing: the index of `text_indexes` follows the table."""


def similar_words(word: str, language: str, limit: int) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_extension WHERE extname = 'pg_trgm'")
        if cursor.fetchone() is None:
            return _words_with_first_letter(word, language)
        cursor.execute(
            "SELECT word FROM commerce_search_searchword WHERE UPPER(word::text) %% UPPER(%s) AND language = %s "
            "ORDER BY similarity(UPPER(word::text), UPPER(%s)) DESC LIMIT %s",
            [word, language, word, limit],
        )
        return [found for (found,) in cursor.fetchall()]


def _words_with_first_letter(word: str, language: str) -> list[str]:
    words = SearchWord.objects.filter(language=language, word__startswith=word[0])
    near = words.annotate(length=Length("word")).filter(
        length__gte=len(word) - MAX_LENGTH_DIFFERENCE, length__lte=len(word) + MAX_LENGTH_DIFFERENCE
    )
    return list(near.values_list("word", flat=True)[:MAX_SCANNED_WORDS])


def _configuration(language: str) -> str:
    return CONFIGURATIONS.get(language[:2].lower(), "simple")


def _query(spellings: Sequence[str]) -> str:
    """Return the SQL of a tsquery that any spelling matches; each has a configuration and a text as parameters."""
    return " || ".join(["plainto_tsquery(%s::regconfig, %s)"] * len(spellings))


def _with_configuration(spellings: Sequence[str], language: str) -> list[str]:
    return [value for spelling in spellings for value in (_configuration(language), spelling)]
