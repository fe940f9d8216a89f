"""The vectors follow the products: texts that have changed are embedded again by the model server.

A vector has the time of its product's last change. Those that differ are found by comparison, the newest changes first;
a product whose text is the same after all, as after a new price, keeps its vector. A new model in the settings makes
all vectors anew beside the old ones, which are removed when the last is made.
"""

import hashlib
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from commerce.catalog.models import Category, Product, ProductQuerySet, ProductType, Tag
from commerce.catalog.search.indexing import pause_for_writers
from commerce.catalog.search.models import EmbeddingModel, ProductVector
from commerce.model_server.embeddings import (
    EmbeddingsClient,
    EmbeddingsUnavailable,
    Vector,
    cut_text,
    embeddings_client,
)

BATCH_SIZE = 128  # texts per call: 1.4 times as many a second as with 32
STORE_SIZE = 32  # vectors per transaction: writers of a shop wait for some 10 ms
MAX_RUN_SECONDS = 8.0  # the task runs every ten seconds
MAX_PER_RUN = 5000
MAX_DELETED_PER_TRANSACTION = 2000
CALL_TIMEOUT_SECONDS = 30.0
RETRY_AFTER = timedelta(seconds=20)
MAX_TRANSACTION = timedelta(seconds=30)  # in which a new name of a category may stay invisible
MAX_DESCRIPTION_LENGTH = 600  # characters: about 150 of the 256 tokens that all-MiniLM-L6-v2 reads
LOCK = 0x53544F41_5645  # of a PostgreSQL database, for those who write vectors

log = structlog.get_logger(__name__)


def update_vectors(*, now: datetime, max_seconds: float = MAX_RUN_SECONDS) -> int:
    """Embed what has changed, for at most about `max_seconds`. Return the number of new vectors."""
    if not settings.SEARCH_MODEL:
        return 0
    model, _ = EmbeddingModel.objects.get_or_create(name=settings.SEARCH_MODEL)
    if model.failed_at is not None and now < model.failed_at + RETRY_AFTER:
        return 0
    _delete_vectors_of_deleted_products()
    _reread_renamed_taxonomy(model, now)
    give_up_at, count = time.monotonic() + max_seconds, 0
    stale = _stale_ids(model)
    while stale and time.monotonic() < give_up_at:
        batch, stale = stale[:BATCH_SIZE], stale[BATCH_SIZE:]
        try:
            count += _embed(model, batch)
        except EmbeddingsUnavailable as failure:
            log.warning("search_embedding_failed", model=model.name, reason=str(failure))
            _update(model, failed_at=timezone.now(), failure=str(failure)[:255])
            return count
    if not stale:
        _complete(model, now)
    return count


def text_of(product: Product) -> str:
    """Return the text whose meaning is searched. Its type, categories and tags must be fetched."""
    taxonomy = [product.type.name, *(row.name for row in product.categories.all())]
    tags = [row.name for row in product.tags.all()]
    parts = [product.name, product.description[:MAX_DESCRIPTION_LENGTH], ", ".join([*taxonomy, *tags])]
    return ". ".join(part.strip().rstrip(".") for part in parts if part.strip())


def fingerprint_of(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def missing_count(model: str) -> int:
    """Return the number of products without a current vector of this model."""
    return _stale(model, None).count()


def _stale(name: str, dimensions: int | None) -> ProductQuerySet:
    current = ProductVector.objects.filter(
        product=OuterRef("pk"), model=name, product_updated_at=OuterRef("updated_at"), language=OuterRef("language")
    )
    if dimensions is not None:
        current = current.filter(dimensions=dimensions)
    return Product.objects.live().filter(~Exists(current)).order_by("-updated_at", "-pk")


def _stale_ids(model: EmbeddingModel) -> list[int]:
    return list(_stale(model.name, model.dimensions).values_list("pk", flat=True)[:MAX_PER_RUN])


def _embed(model: EmbeddingModel, product_ids: Sequence[int]) -> int:
    """Make the vectors of these products current. Raises EmbeddingsUnavailable."""
    rows = Product.objects.live().filter(pk__in=product_ids).select_related("type")
    products = {product.pk: product for product in rows.prefetch_related("categories", "tags")}
    texts = {pk: text_of(product) for pk, product in products.items()}
    stored = ProductVector.objects.filter(product__in=products, model=model.name, dimensions=model.dimensions or 0)
    current = set(stored.values_list("product_id", "language", "fingerprint"))
    changed = [pk for pk, text in texts.items() if (pk, products[pk].language, fingerprint_of(text)) not in current]
    found = _client().embed_or_shorten(model.name, [cut_text(texts[pk]) for pk in changed]) if changed else []
    if refused := [pk for pk, vector in zip(changed, found, strict=True) if vector is None]:
        log.warning("search_texts_refused", model=model.name, product_ids=refused)
    changed = [pk for pk in changed if pk not in refused]
    vectors = [vector for vector in found if vector is not None]
    if vectors and len(vectors[0]) != model.dimensions:
        _update(model, dimensions=len(vectors[0]))  # vectors of another size are embedded again
    new = [_vector(model, products[pk], texts[pk], vector) for pk, vector in zip(changed, vectors, strict=True)]
    same = [products[pk] for pk in products.keys() - {*changed, *refused}]
    for start in range(0, max(len(new), len(same)), STORE_SIZE):
        began = time.monotonic()
        _store(model, new[start : start + STORE_SIZE], same[start : start + STORE_SIZE])
        pause_for_writers(began)
    if vectors and model.failed_at is not None:
        _update(model, failed_at=None, failure="")
    return len(new)


def _vector(model: EmbeddingModel, product: Product, text: str, vector: Vector) -> ProductVector:
    return ProductVector(
        product=product,
        model=model.name,
        language=product.language,
        dimensions=len(vector),
        vector=vector.astype("<f2").tobytes(),
        fingerprint=fingerprint_of(text),
        product_updated_at=product.updated_at,
    )


@transaction.atomic
def _store(model: EmbeddingModel, new: Sequence[ProductVector], same: Sequence[Product]) -> None:
    """Replace vectors by new rows, and note that others are still right.

    One process writes at a time, so that rows become visible in the order of their ids, on which readers rely.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    ProductVector.objects.filter(model=model.name, product__in=[row.product_id for row in new]).delete()
    ProductVector.objects.bulk_create(new)
    for product in same:
        rows = ProductVector.objects.filter(model=model.name, product=product)
        rows.update(product_updated_at=product.updated_at)


def _reread_renamed_taxonomy(model: EmbeddingModel, now: datetime) -> None:
    """Have the products of types, categories and tags that have changed since the last run compared again."""
    if model.taxonomy_read_at is not None:
        is_new = Q(updated_at__gt=model.taxonomy_read_at - MAX_TRANSACTION)
        types, categories, tags = (
            list(entry._default_manager.filter(is_new).values_list("pk", flat=True))
            for entry in (ProductType, Category, Tag)
        )
        if types or categories or tags:
            concerned = Product.objects.filter(Q(type__in=types) | Q(categories__in=categories) | Q(tags__in=tags))
            vectors = ProductVector.objects.filter(model=model.name, product__in=concerned.order_by().values("pk"))
            vectors.update(product_updated_at=None)
    _update(model, taxonomy_read_at=now)


def _complete(model: EmbeddingModel, now: datetime) -> None:
    """Remove the vectors of former models, now that all products have one of this model."""
    if model.completed_at is None:
        _update(model, completed_at=now)
    while old := list(ProductVector.objects.exclude(model=model.name).values_list("pk")[:MAX_DELETED_PER_TRANSACTION]):
        ProductVector.objects.filter(pk__in=[pk for (pk,) in old]).delete()
    EmbeddingModel.objects.exclude(pk=model.pk).delete()


def _delete_vectors_of_deleted_products() -> None:
    deleted = ProductVector.objects.filter(product__deleted_at__isnull=False)
    ProductVector.objects.filter(pk__in=list(deleted.values_list("pk", flat=True)[:MAX_PER_RUN])).delete()


def _update(model: EmbeddingModel, **values: object) -> None:
    EmbeddingModel.objects.filter(pk=model.pk).update(**values)
    for name, value in values.items():
        setattr(model, name, value)


def _client() -> EmbeddingsClient:
    return embeddings_client(
        base_url=settings.DESCRIPTIONS_BASE_URL,
        api_key=settings.DESCRIPTIONS_API_KEY,
        timeout_seconds=CALL_TIMEOUT_SECONDS,
        is_background=True,
    )
