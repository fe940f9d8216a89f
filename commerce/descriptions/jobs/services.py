"""Services of jobs: create, cancel and schedule them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.conf import settings
from django.db import transaction

from commerce.catalog.models import Product
from commerce.config.celery import send
from commerce.descriptions import quotas
from commerce.descriptions.jobs import processing
from commerce.descriptions.models import DescriptionJob, JobItem, description_digest
from commerce.descriptions.quotas import QuotaOwner
from commerce.descriptions.text.prompts import can_write
from shared.accounts.models import User
from shared.api.errors import ApiError, ValidationFailed

MAX_PRODUCTS_COUNT = 200
TASK_NAME = "commerce.descriptions.tasks.look_after"


@dataclass(frozen=True, kw_only=True)
class DescriptionOptions:
    """Style of a job's descriptions. An empty language stands for each product's own."""

    keywords: tuple[str, ...] = ()
    tone: str = ""
    language: str = ""
    max_words: int | None = None


@transaction.atomic
def create_job(
    *, author: User, product_ids: Sequence[int], options: DescriptionOptions, now: datetime
) -> DescriptionJob:
    """Create a job for these products and charge them all to their shops' quotas.

    Raises QuotaExceeded, and ValidationFailed for no product, too many, or one that the author may not change.
    """
    products = _find_products(author, list(dict.fromkeys(product_ids)))
    _check_languages(products, options)
    usage_ids = _charge_quotas(products, now)
    job = DescriptionJob.objects.create(
        author=author,
        tone=options.tone,
        language=options.language,
        keywords=list(options.keywords),
        max_words=options.max_words,
        model=settings.DESCRIPTIONS_MODEL,
        total=len(products),
        created_at=now,
        next_check_at=now,
    )
    JobItem.objects.bulk_create(
        JobItem(
            job=job,
            position=position,
            product=product,
            quota_usage_id=usage_ids[product.shop_id],
            based_on=description_digest(product.description),
        )
        for position, product in enumerate(products)
    )
    transaction.on_commit(partial(schedule_processing, job_id=job.pk, now=now), robust=True)
    return job


@transaction.atomic
def cancel_job(*, author: User, job_id: int, now: datetime) -> DescriptionJob:
    """Cancel the job's pending products. Written drafts stay.

    Raises ApiError 404 for a job that the author may not see, and 409 for one that has ended.
    """
    job = DescriptionJob.objects.select_for_update().for_user(author).filter(pk=job_id).first()
    if job is None:
        raise ApiError(404, "You have no job with this id.")
    if not job.is_open:
        raise ApiError(409, f"This job is already {job.state}.")
    job.cancelled_at = job.cancelled_at or now
    job.next_check_at = now
    job.save(update_fields=["cancelled_at", "next_check_at"])
    transaction.on_commit(partial(schedule_processing, job_id=job.pk, now=now), robust=True)
    return job


def schedule_processing(*, job_id: int, now: datetime) -> None:
    """Send the job to a worker, or process it here where there is none."""
    if settings.CELERY_BROKER_URL:
        send(TASK_NAME, job_id=job_id)
    else:
        processing.process_job(job_id=job_id, now=now)


def process_without_worker(*, job: DescriptionJob, now: datetime) -> None:
    """Process a due job where there is no worker. Views call this, so that reading a job advances it."""
    if not settings.CELERY_BROKER_URL and job.is_open and job.next_check_at <= now:
        processing.process_job(job_id=job.pk, now=now)
        job.refresh_from_db()


def _find_products(author: User, product_ids: list[int]) -> list[Product]:
    if not 0 < len(product_ids) <= MAX_PRODUCTS_COUNT:
        raise ValidationFailed({"product_ids": [f"Send from 1 to {MAX_PRODUCTS_COUNT} products."]})
    products = Product.objects.managed_by(author).only("pk", "shop_id", "description", "language").in_bulk(product_ids)
    missing = [product_id for product_id in product_ids if product_id not in products]
    if missing:
        raise ValidationFailed({"product_ids": [f"Your shops have no product with the id {missing[0]}."]})
    return [products[product_id] for product_id in product_ids]


def _check_languages(products: Sequence[Product], options: DescriptionOptions) -> None:
    model = settings.DESCRIPTIONS_MODEL
    for product in products:
        if not can_write(options.language or product.language, model):
            raise ValidationFailed(
                {
                    "language": [
                        f"{model} writes English only, and product {product.pk} is in {product.language}. "
                        "Send language: en, or leave the product out."
                    ]
                }
            )


def _charge_quotas(products: Sequence[Product], now: datetime) -> Mapping[int, int]:
    """Return the usage rows by shop. Rows are locked in one order, so that two jobs cannot deadlock."""
    shop_ids = [product.shop_id for product in products]
    return {
        shop_id: quotas.charge(owner=QuotaOwner(shop_id=shop_id), now=now, count=shop_ids.count(shop_id))
        for shop_id in sorted(set(shop_ids))
    }
