"""The index follows the products: what has changed since it was indexed is indexed again, in short transactions.

A product's document has the time of its last change, and the name of its shop. Those that differ are found by
comparison, so that no write is missed, whoever made it and whenever it was committed.
"""

import time
from collections.abc import Collection, Sequence

from django.db import transaction
from django.db.models import F, Max, Q

from commerce.catalog.models import Product
from commerce.catalog.search.models import SearchDocument, SearchWord
from commerce.catalog.search.text_index import text_index
from commerce.catalog.search.words import spelling_words

BATCH_SIZE = 50  # products per transaction: writers of a shop wait for some 5 ms
MAX_PAUSE_SECONDS = 0.05  # between transactions, in which those writers have their turn
MAX_RUN_SECONDS = 60.0
MAX_SPELLING_TEXT = 2000  # characters of a description whose words are corrections
MAX_WORDS_PER_QUERY = 10_000  # SQLite takes 32,766 parameters


def update_index(*, max_seconds: float = MAX_RUN_SECONDS) -> int:
    """Index what has changed, for at most `max_seconds`. Return the number of products that were indexed or removed."""
    give_up_at, count = time.monotonic() + max_seconds, 0
    stale = _stale_ids()
    while stale and time.monotonic() < give_up_at:
        batch, stale, began = stale[:BATCH_SIZE], stale[BATCH_SIZE:], time.monotonic()
        if not _update(batch):
            return count  # another process does it
        count += len(batch)
        if stale:
            pause_for_writers(began)
    return count


def pause_for_writers(began: float) -> None:
    """Sleep as long as the work since `began` took: whoever waits for SQLite's lock asks for it again every few ms."""
    time.sleep(min(time.monotonic() - began, MAX_PAUSE_SECONDS))


def outdated_count() -> int:
    """Return the number of products whose changes the index does not have yet."""
    return len(_stale_ids())


def _stale_ids() -> list[int]:
    is_current = Q(
        search_document__product_updated_at=F("updated_at"),
        search_document__shop_name=F("shop__name"),
        search_document__language=F("language"),
    )
    live = Product.objects.live().order_by().values_list("pk", flat=True)
    changed = live.difference(live.filter(is_current))
    deleted = SearchDocument.objects.filter(product__deleted_at__isnull=False).values_list("pk", flat=True)
    return [*changed, *deleted]


def _update(product_ids: Sequence[int]) -> bool:
    """Replace the documents of these products. Return False if another process writes the index.

    The transaction only writes. The document of a product that changes after it was read differs from it.
    """
    products = Product.objects.live().filter(pk__in=product_ids)
    columns = ("pk", "updated_at", "language", "name", "description", "shop__name")
    documents, texts, words = [], [], set[tuple[str, str]]()
    for pk, updated_at, language, name, description, shop in products.values_list(*columns):
        documents.append(
            SearchDocument(product_id=pk, product_updated_at=updated_at, shop_name=shop, language=language)
        )
        texts.append((pk, language, name, description, shop))
        words |= {(language, word) for word in spelling_words(f"{name} {description[:MAX_SPELLING_TEXT]}")}
    return _write(documents, texts, _new_words(words), set(product_ids) - {row[0] for row in texts})


@transaction.atomic
def _write(
    documents: Sequence[SearchDocument],
    texts: Sequence[tuple[int, str, str, str, str]],
    words: Sequence[SearchWord],
    removed: Collection[int],
) -> bool:
    index = text_index()
    if not index.take_lock():
        return False
    if removed:
        index.remove_texts(removed)
        SearchDocument.objects.filter(pk__in=removed).delete()
    SearchDocument.objects.bulk_create(
        documents,
        update_conflicts=True,
        unique_fields=["product"],
        update_fields=["product_updated_at", "shop_name", "language"],
    )
    index.write_texts(texts)
    if words:
        last_id = SearchWord.objects.aggregate(last=Max("pk"))["last"] or 0
        SearchWord.objects.bulk_create(words, ignore_conflicts=True)
        index.add_words(last_id)
    return True


def _new_words(pairs: set[tuple[str, str]]) -> list[SearchWord]:
    new, words = set(pairs), sorted({word for _, word in pairs})
    for start in range(0, len(words), MAX_WORDS_PER_QUERY):
        found = SearchWord.objects.filter(word__in=words[start : start + MAX_WORDS_PER_QUERY])
        new.difference_update(found.values_list("language", "word"))
    return [SearchWord(language=language, word=word) for language, word in sorted(new)]
