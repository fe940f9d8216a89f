"""Descriptions for many products at once: asked for, looked at, cancelled. `job_rounds` has them written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.conf import settings
from django.db import transaction

from commerce.catalog.models import Product
from commerce.config.celery import send
from commerce.descriptions import allowances, job_rounds
from commerce.descriptions.allowances import Holder
from commerce.descriptions.models import DescriptionJob, JobItem, version_of
from shared.accounts.models import User
from shared.api.errors import ApiError, ValidationFailed

MOST_PRODUCTS = 200
TASK = "commerce.descriptions.tasks.look_after"


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """How the descriptions should be. Without a language each is in its product's."""

    keywords: tuple[str, ...] = ()
    tone: str = ""
    language: str = ""
    max_words: int | None = None


@transaction.atomic
def create_job(*, author: User, product_ids: Sequence[int], wishes: Wishes, now: datetime) -> DescriptionJob:
    """Has a draft written for each of these products, and takes them all from their shops' allowances. Raises
    ValidationFailed for none, too many, or a product that the author may not change; AllowanceSpent."""
    products = _products(author, list(dict.fromkeys(product_ids)))
    taken = _take(products, now)
    job = DescriptionJob.objects.create(
        author=author,
        tone=wishes.tone,
        language=wishes.language,
        keywords=list(wishes.keywords),
        max_words=wishes.max_words,
        model=settings.DESCRIPTIONS_MODEL,
        total=len(products),
        created_at=now,
        look_at=now,
    )
    JobItem.objects.bulk_create(
        JobItem(
            job=job,
            place=place,
            product=product,
            allowance_id=taken[product.shop_id],
            based_on=version_of(product.description),
        )
        for place, product in enumerate(products)
    )
    transaction.on_commit(partial(wake, job_id=job.pk, now=now), robust=True)
    return job


@transaction.atomic
def cancel_job(*, author: User, job_id: int, now: datetime) -> DescriptionJob:
    """What is not written yet will not be; drafts stay. Raises ApiError 404 for another's job, 409 for one that has
    ended."""
    job = DescriptionJob.objects.select_for_update().for_user(author).filter(pk=job_id).first()
    if job is None:
        raise ApiError(404, "You have no job with this id.")
    if not job.is_open:
        raise ApiError(409, f"This job is {job.state} already.")
    job.cancelled_at = job.cancelled_at or now
    job.look_at = now
    job.save(update_fields=["cancelled_at", "look_at"])
    transaction.on_commit(partial(wake, job_id=job.pk, now=now), robust=True)
    return job


def wake(*, job_id: int, now: datetime) -> None:
    """Has the job looked after soon: by a worker, or here where there is none."""
    if settings.CELERY_BROKER_URL:
        send(TASK, job_id=job_id)
    else:
        job_rounds.look_after(job_id=job_id, now=now)


def keep_going(*, job: DescriptionJob, now: datetime) -> None:
    """Where there is no worker, whoever asks about a job moves it on."""
    if not settings.CELERY_BROKER_URL and job.is_open and job.look_at <= now:
        job_rounds.look_after(job_id=job.pk, now=now)
        job.refresh_from_db()


def _products(author: User, product_ids: list[int]) -> list[Product]:
    if not 0 < len(product_ids) <= MOST_PRODUCTS:
        raise ValidationFailed({"product_ids": [f"Name 1 to {MOST_PRODUCTS} products."]})
    found = Product.objects.managed_by(author).only("pk", "shop_id", "description").in_bulk(product_ids)
    missing = [product_id for product_id in product_ids if product_id not in found]
    if missing:
        raise ValidationFailed({"product_ids": [f"Your shops have no product with the id {missing[0]}."]})
    return [found[product_id] for product_id in product_ids]


def _take(products: Sequence[Product], now: datetime) -> Mapping[int, int]:
    """The allowances, by shop, always in the same order: two jobs wait for each other and never for ever."""
    shops = [product.shop_id for product in products]
    return {
        shop_id: allowances.take(holder=Holder(shop_id=shop_id), now=now, count=shops.count(shop_id)).allowance_id
        for shop_id in sorted(set(shops))
    }
