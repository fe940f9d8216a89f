"""Processing of jobs: send the batch, read its results page by page, and create drafts from them.

Every step may run twice and in several workers. The batch has an idempotency key of the job, results are stored in a
transaction that locks the job's row, and a result with a draft is skipped. The model server's webhook only makes a job
due earlier; without it, a job is checked every few seconds.
"""

import asyncio
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from commerce.catalog.models import Product
from commerce.descriptions import quotas
from commerce.descriptions.drafts import create_draft
from commerce.descriptions.jobs.cooldown import ServerCoolingDown, guard_call
from commerce.descriptions.models import DescriptionJob, JobItem
from commerce.descriptions.provider.batches import (
    INVALID_RESPONSE,
    BatchClient,
    BatchServerError,
    BatchServerUnavailable,
    DescriptionResult,
)
from commerce.descriptions.provider.client import SAMPLING_PARAMS, ProviderBusy, ProviderError
from commerce.descriptions.provider.drawing import draw_best
from commerce.descriptions.text import prompts
from commerce.descriptions.text.best_text import BestText
from commerce.descriptions.text.prompts import DescriptionRequest
from commerce.descriptions.text.rules import plain_statement
from shared.backoff import Backoff

PROCESSING_TIMEOUT = timedelta(seconds=90)  # a worker that takes longer is considered dead
CHECK_INTERVAL = timedelta(seconds=3)
MAX_CHOICES = 8  # of a request to the model server
BACKOFF = Backoff(first_seconds=CHECK_INTERVAL.total_seconds(), max_seconds=60)
JOB_TIMEOUT = timedelta(hours=25)  # the model server allows a batch one day
MAX_RUN_TIME = timedelta(minutes=1)
MAX_PAGE_REDRAW_SECONDS = 10.0  # after these no other product of the page is redrawn whose texts break rules
NOT_DONE = "NOT_DONE"
NO_TEXT = "NO_TEXT"
PRODUCT_GONE = "PRODUCT_GONE"
TIMED_OUT = "The model server did not answer for a day."

# The parameters of a single description. The defaults of the batch API differ.
BATCH_SAMPLING_PARAMS = SAMPLING_PARAMS | {"top_k": 0, "repeat_penalty": 1.0}

State = DescriptionJob.State

log = structlog.get_logger(__name__)


def process_due_jobs(*, clock: Callable[[], datetime] = timezone.now) -> None:
    """Process the jobs that are due, for at most a minute. The next run continues."""
    deadline = clock() + MAX_RUN_TIME
    due = DescriptionJob.objects.due(clock()).order_by("next_check_at").values_list("pk", flat=True)
    for job_id in list(due):
        if clock() >= deadline:
            return
        process_job(job_id=job_id, now=clock())


def process_job(*, job_id: int, now: datetime) -> None:
    """Process one step of a job, unless another worker does."""
    due = DescriptionJob.objects.due(now).filter(pk=job_id)
    if not due.update(next_check_at=now + PROCESSING_TIMEOUT):
        return
    job = DescriptionJob.objects.get(pk=job_id)
    try:
        _process(job, now)
    except BatchServerError as error:
        log.warning("description_job_failed", job_id=job.pk, reason=str(error))
        _end(job.pk, State.FAILED, now, error=str(error))
    except BatchServerUnavailable:
        _retry_later(job, now)
    except ServerCoolingDown as cooldown:
        _retry_later(job, now, until=cooldown.until)


def _process(job: DescriptionJob, now: datetime) -> None:
    if not job.batch_id and job.cancelled_at:
        _end(job.pk, State.CANCELLED, now)
        return
    client = batch_client()
    with guard_call(now=now):
        if not job.batch_id:
            _submit(client, job, now)
            return
        if job.cancelled_at:
            client.cancel(job.batch_id)
        _read_results(client, job, now)


def _submit(client: BatchClient, job: DescriptionJob, now: datetime) -> None:
    """Submit the job as one batch, however often this runs.

    The idempotency key depends on the job and on the body, because a product can be renamed between two attempts and a
    key is valid for one body only.
    """
    body = _batch_body(job)
    key = uuid.uuid5(job.key, json.dumps(body, sort_keys=True))
    batch_id = client.submit(body, key=str(key))
    if not _check_again(job, now, state=State.RUNNING, batch_id=batch_id):
        client.cancel(batch_id)  # the job was cancelled meanwhile


def _read_results(client: BatchClient, job: DescriptionJob, now: datetime) -> None:
    """Read and store new results, page by page. The last page of an ended batch ends the job.

    A run of more than MAX_PAGE_REDRAW_SECONDS ends after its page. The last page may take as long again, a call for
    its results and the last product's draws 20 s each: together less than PROCESSING_TIMEOUT.
    """
    began = time.monotonic()
    after = (_waiting_items(job).values_list("position", flat=True).first() or 0) - 1
    while True:
        page = client.results(job.batch_id, after=after)
        _store_results(job.pk, page.results, _best_texts(job, page.results), now)
        if page.next is None:
            _end(job.pk, State.CANCELLED if page.status == "cancelled" else State.COMPLETED, now)
            return
        if not page.results or time.monotonic() - began > MAX_PAGE_REDRAW_SECONDS:
            _check_again(job, now)
            return
        if page.next <= after:
            raise BatchServerError(INVALID_RESPONSE)
        after = page.next


def batch_client() -> BatchClient:
    """Return the client of the batch API beside the OpenAI-compatible one in the settings."""
    url = settings.DESCRIPTIONS_BASE_URL.rstrip("/").removesuffix("/v1")
    return BatchClient(url=url, api_key=settings.DESCRIPTIONS_API_KEY)


def _batch_body(job: DescriptionJob) -> dict[str, Any]:
    items = job.items.select_related("product").order_by("position")
    return {"model": job.model, "requests": [_batch_request(job, item) for item in items], **BATCH_SAMPLING_PARAMS}


def _batch_request(job: DescriptionJob, item: JobItem) -> dict[str, Any]:
    request = description_request(job, item)
    return {
        "id": str(item.position),
        "messages": prompts.build_messages(request, job.model),
        "max_tokens": prompts.max_tokens(request),
        "n": min(MAX_CHOICES, settings.DESCRIPTIONS_DRAWS),
    }


def description_request(job: DescriptionJob, item: JobItem) -> DescriptionRequest:
    """Return the description request of one product of the job."""
    return DescriptionRequest(
        product_name=item.product.name,
        keywords=tuple(job.keywords),
        tone=job.tone,
        language=job.language or item.product.language,
        max_words=job.max_words,
    )


def _best_texts(job: DescriptionJob, results: Iterable[DescriptionResult]) -> dict[str, BestText]:
    """Return the best texts by result id. Draws again, as for a single description, where no text keeps the rules."""
    items = {str(item.position): item for item in _waiting_items(job).select_related("product")}
    deadline = time.monotonic() + MAX_PAGE_REDRAW_SECONDS
    texts = {}
    for result in results:
        if result.status == "completed" and result.id in items:
            best = BestText(description_request(job, items[result.id]), job.model)
            for choice in result.choices or ():
                best.add(choice.text, ended=choice.finish_reason == "stop")
            has_time = time.monotonic() < deadline
            texts[result.id] = _draw_again(best) if best.count and not best.text and has_time else best
    return texts


def _draw_again(best: BestText) -> BestText:
    """Return the best of new draws, or the given one without them."""
    try:
        return asyncio.run(draw_best(best.request, best.model))
    except (ProviderError, ProviderBusy):
        return best


@transaction.atomic
def _store_results(
    job_id: int, results: Iterable[DescriptionResult], texts: dict[str, BestText], now: datetime
) -> None:
    """Store the new results as drafts, for products that the author may still change. Skip a job that has ended."""
    job = DescriptionJob.objects.select_for_update().get(pk=job_id)
    if not job.is_open:
        return
    items = {str(item.position): item for item in _waiting_items(job).select_related("product")}
    product_ids = {item.product_id for item in items.values()}
    managed_ids = set(Product.objects.managed_by(job.author).filter(pk__in=product_ids).values_list("pk", flat=True))
    for result in results:
        item = items.get(result.id)
        if item and item.product_id not in managed_ids:
            item.state, item.error = JobItem.State.FAILED, PRODUCT_GONE
        elif item and result.status == "completed":
            _store_text(job, item, texts.get(result.id), now)
        elif item and result.status == "failed":
            item.state, item.error = JobItem.State.FAILED, result.error.code if result.error else NOT_DONE
    _save_items([item for item in items.values() if item.state != JobItem.State.WAITING])
    _update_counts(job)


def _store_text(job: DescriptionJob, item: JobItem, best: BestText | None, now: datetime) -> None:
    """Store the best text that keeps the rules as a draft, or else a statement of the facts."""
    if best is None or not best.count:
        item.state, item.error = JobItem.State.FAILED, NO_TEXT
        return
    item.state = JobItem.State.WRITTEN
    item.draft = create_draft(
        product=item.product,
        author_id=job.author_id,
        request=best.request,
        text=best.text or plain_statement(best.request),
        is_fallback=not best.text,
        based_on=item.based_on,
        model=job.model,
        now=now,
    )


@transaction.atomic
def _end(job_id: int, state: str, now: datetime, *, error: str = "") -> None:
    """End the job and refund its pending products."""
    job = DescriptionJob.objects.select_for_update().get(pk=job_id)
    if not job.is_open:
        return
    items = list(_waiting_items(job))
    is_cancelled = state == State.CANCELLED
    for item in items:
        item.state, item.error = (JobItem.State.CANCELLED, "") if is_cancelled else (JobItem.State.FAILED, NOT_DONE)
    _save_items(items)
    _update_counts(job)
    job.state, job.ended_at, job.error = state, now, error
    job.save(update_fields=["state", "ended_at", "error"])


def _save_items(items: Sequence[JobItem]) -> None:
    """Save the items' outcomes, and refund those without a draft."""
    JobItem.objects.bulk_update(items, ["state", "error", "draft"])
    counts = Counter(item.quota_usage_id for item in items if item.state != JobItem.State.WRITTEN)
    for usage_id in sorted(counts):
        quotas.refund(usage_id, counts[usage_id])


def _update_counts(job: DescriptionJob) -> None:
    counts = Counter(job.items.values_list("state", flat=True))
    job.written, job.failed = counts[JobItem.State.WRITTEN], counts[JobItem.State.FAILED]
    job.save(update_fields=["written", "failed"])


def _waiting_items(job: DescriptionJob) -> "QuerySet[JobItem]":
    return job.items.filter(state=JobItem.State.WAITING).order_by("position")


def _check_again(job: DescriptionJob, now: datetime, **values: Any) -> bool:
    """Schedule the next check, unless a webhook or a cancellation has made the job due. Return whether it is open."""
    open_jobs = DescriptionJob.objects.filter(pk=job.pk, ended_at=None)
    is_open = bool(open_jobs.update(failure_count=0, **values))
    open_jobs.filter(next_check_at=now + PROCESSING_TIMEOUT).update(next_check_at=now + CHECK_INTERVAL)
    return is_open


def _retry_later(job: DescriptionJob, now: datetime, *, until: datetime | None = None) -> None:
    """Schedule the next check at `until`, or with exponential backoff. Fail the job after a day."""
    if now - job.created_at > JOB_TIMEOUT:
        _end(job.pk, State.FAILED, now, error=TIMED_OUT)
        return
    open_jobs = DescriptionJob.objects.filter(pk=job.pk, ended_at=None)
    if until:
        open_jobs.update(next_check_at=until)
        return
    seconds = BACKOFF.seconds(job.failure_count + 1)
    log.warning("description_job_delayed", job_id=job.pk, seconds=seconds)
    open_jobs.update(next_check_at=now + timedelta(seconds=seconds), failure_count=job.failure_count + 1)
