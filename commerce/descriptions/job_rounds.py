"""Looking after jobs: the batch is sent, its results are fetched page by page, and drafts are made of them.

Every step may be done twice, and by several workers: the batch is sent with a key of the job's own, what is stored is
stored in one transaction that holds the job's row, and a result for which there is a draft is passed over. The model
server's webhook only hastens the next look: without it, jobs are looked at every few seconds.
"""

import json
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
from commerce.descriptions import allowances, prompts
from commerce.descriptions.allowances import Taken
from commerce.descriptions.batch_server import NO_SENSE, BatchServer, BatchServerAway, BatchServerError, Result
from commerce.descriptions.models import DescriptionDraft, DescriptionJob, JobItem
from commerce.descriptions.plain_text import plain_text
from commerce.descriptions.prompts import Brief
from commerce.descriptions.provider import SAMPLING
from commerce.descriptions.server_rest import ServerRests, asking

LOOKED_AFTER_WITHIN = timedelta(seconds=30)  # after it, whoever looked after a job counts as dead
LOOK_AGAIN_AFTER = timedelta(seconds=3)
LONGEST_PAUSE = timedelta(minutes=1)
GIVEN_UP_AFTER = timedelta(hours=25)  # the model server gives a batch a day
LONGEST_ROUND = timedelta(minutes=1)
LONGEST_TEXT = 20_000
NOT_DONE = "NOT_DONE"
NO_TEXT = "NO_TEXT"
PRODUCT_GONE = "PRODUCT_GONE"
AWAY = "The model server did not answer for a day."

# As the chat of a single description has it: the native form's own defaults are others.
SAME_SAMPLING = SAMPLING | {"top_k": 0, "repeat_penalty": 1.0}

State = DescriptionJob.State

log = structlog.get_logger(__name__)


def look_after_all(*, clock: Callable[[], datetime] = timezone.now) -> None:
    """A round of the jobs that are due, for a minute at most: the next round goes on."""
    until = clock() + LONGEST_ROUND
    due = DescriptionJob.objects.due(clock()).order_by("look_at").values_list("pk", flat=True)
    for job_id in list(due):
        if clock() >= until:
            return
        look_after(job_id=job_id, now=clock())


def look_after(*, job_id: int, now: datetime) -> None:
    """One step of one job, unless somebody else is at it."""
    ours = DescriptionJob.objects.due(now).filter(pk=job_id)
    if not ours.update(look_at=now + LOOKED_AFTER_WITHIN):
        return
    job = DescriptionJob.objects.get(pk=job_id)
    try:
        _move_on(job, now)
    except BatchServerError as error:
        log.warning("description_job_failed", job_id=job.pk, reason=str(error))
        _end(job.pk, State.FAILED, now, error=str(error))
    except BatchServerAway:
        _wait(job, now)
    except ServerRests as rests:
        _wait(job, now, until=rests.until)


def _move_on(job: DescriptionJob, now: datetime) -> None:
    if not job.batch_id and job.cancelled_at:
        _end(job.pk, State.CANCELLED, now)
        return
    server = batch_server()
    with asking(now=now):
        if not job.batch_id:
            _send(server, job, now)
            return
        if job.cancelled_at:
            server.cancel(job.batch_id)
        _read(server, job, now)


def _send(server: BatchServer, job: DescriptionJob, now: datetime) -> None:
    """As one batch, however often it is sent: its key is of the job and of what is asked, for a product may have got
    another name since, and a server takes a key for one body alone."""
    batch = _batch(job)
    key = uuid.uuid5(job.key, json.dumps(batch, sort_keys=True))
    batch_id = server.submit(batch, key=str(key))
    if not _put_off(job, now, state=State.RUNNING, batch_id=batch_id):
        server.cancel(batch_id)  # somebody has cancelled the job meanwhile


def _read(server: BatchServer, job: DescriptionJob, now: datetime) -> None:
    """All results that are new, page by page; the last page of a batch that has ended says so."""
    after = (_waiting(job).values_list("place", flat=True).first() or 0) - 1
    while True:
        page = server.results(job.batch_id, after=after)
        _store(job.pk, page.results, now)
        if page.next is None:
            _end(job.pk, State.CANCELLED if page.status == "cancelled" else State.COMPLETED, now)
            return
        if not page.results:
            _put_off(job, now)
            return
        if page.next <= after:
            raise BatchServerError(NO_SENSE)
        after = page.next


def batch_server() -> BatchServer:
    """The model server beside the OpenAI-compatible door that descriptions go through."""
    url = settings.DESCRIPTIONS_BASE_URL.rstrip("/").removesuffix("/v1")
    return BatchServer(url=url, api_key=settings.DESCRIPTIONS_API_KEY)


def _batch(job: DescriptionJob) -> dict[str, Any]:
    items = job.items.select_related("product").order_by("place")
    return {"model": job.model, "requests": [_request(job, item) for item in items], **SAME_SAMPLING}


def _request(job: DescriptionJob, item: JobItem) -> dict[str, Any]:
    brief = brief_of(job, item)
    return {"id": str(item.place), "messages": prompts.messages(brief), "max_tokens": prompts.max_tokens(brief)}


def brief_of(job: DescriptionJob, item: JobItem) -> Brief:
    """What is asked for one product."""
    return Brief(
        product_name=item.product.name,
        keywords=tuple(job.keywords),
        tone=job.tone,
        language=job.language or item.product.language,
        max_words=job.max_words,
    )


@transaction.atomic
def _store(job_id: int, results: Iterable[Result], now: datetime) -> None:
    """Drafts of what is new among these results, for products that the author may still change. A job that has ended
    stays as it is."""
    job = DescriptionJob.objects.select_for_update().get(pk=job_id)
    if not job.is_open:
        return
    waiting = {str(item.place): item for item in _waiting(job).select_related("product")}
    products = {item.product_id for item in waiting.values()}
    ours = set(Product.objects.managed_by(job.author).filter(pk__in=products).values_list("pk", flat=True))
    for result in results:
        item = waiting.get(result.id)
        if item and item.product_id not in ours:
            item.state, item.error = JobItem.State.FAILED, PRODUCT_GONE
        elif item and result.status == "completed":
            _write(job, item, plain_text(result.text), now)
        elif item and result.status == "failed":
            item.state, item.error = JobItem.State.FAILED, result.error.code if result.error else NOT_DONE
    _save([item for item in waiting.values() if item.state != JobItem.State.WAITING])
    _count(job)


def _write(job: DescriptionJob, item: JobItem, text: str, now: datetime) -> None:
    if not text or len(text) > LONGEST_TEXT:
        item.state, item.error = JobItem.State.FAILED, NO_TEXT
        return
    brief = brief_of(job, item)
    item.state = JobItem.State.WRITTEN
    item.draft = DescriptionDraft.objects.create(
        product=item.product,
        author_id=job.author_id,
        text=text,
        written=text,
        based_on=item.based_on,
        model=job.model,
        tone=brief.tone,
        language=brief.language,
        keywords=list(brief.keywords),
        max_words=brief.max_words,
        created_at=now,
    )


@transaction.atomic
def _end(job_id: int, state: str, now: datetime, *, error: str = "") -> None:
    """What is not written by now will not be, and does not count in any allowance."""
    job = DescriptionJob.objects.select_for_update().get(pk=job_id)
    if not job.is_open:
        return
    left = list(_waiting(job))
    for item in left:
        is_cancelled = state == State.CANCELLED
        item.state, item.error = (JobItem.State.CANCELLED, "") if is_cancelled else (JobItem.State.FAILED, NOT_DONE)
    _save(left)
    _count(job)
    job.state, job.ended_at, job.error = state, now, error
    job.save(update_fields=["state", "ended_at", "error"])


def _save(items: Sequence[JobItem]) -> None:
    """Writes what became of these items, and gives back what those that came to nothing had taken."""
    JobItem.objects.bulk_update(items, ["state", "error", "draft"])
    lost = Counter(item.allowance_id for item in items if item.state != JobItem.State.WRITTEN)
    for allowance_id in sorted(lost):
        allowances.give_back(taken=Taken(allowance_id=allowance_id, count=lost[allowance_id]))


def _count(job: DescriptionJob) -> None:
    states = Counter(job.items.values_list("state", flat=True))
    job.written, job.failed = states[JobItem.State.WRITTEN], states[JobItem.State.FAILED]
    job.save(update_fields=["written", "failed"])


def _waiting(job: DescriptionJob) -> "QuerySet[JobItem]":
    return job.items.filter(state=JobItem.State.WAITING).order_by("place")


def _put_off(job: DescriptionJob, now: datetime, **values: Any) -> bool:
    """The next look is in a few seconds; unless one was asked for meanwhile, by a webhook or because of a cancel. False
    for a job that has ended meanwhile, which stays as it is."""
    open_jobs = DescriptionJob.objects.filter(pk=job.pk, ended_at=None)
    is_open = bool(open_jobs.update(setbacks=0, **values))
    open_jobs.filter(look_at=now + LOOKED_AFTER_WITHIN).update(look_at=now + LOOK_AGAIN_AFTER)
    return is_open


def _wait(job: DescriptionJob, now: datetime, *, until: datetime | None = None) -> None:
    """Longer each time that the model server does not answer, or until then; after a day, no more."""
    if now - job.created_at > GIVEN_UP_AFTER:
        _end(job.pk, State.FAILED, now, error=AWAY)
        return
    open_jobs = DescriptionJob.objects.filter(pk=job.pk, ended_at=None)
    if until:
        open_jobs.update(look_at=until)
        return
    pause = min(LOOK_AGAIN_AFTER * 2 ** min(job.setbacks, 10), LONGEST_PAUSE)
    log.warning("description_job_waits", job_id=job.pk, seconds=pause.total_seconds())
    open_jobs.update(look_at=now + pause, setbacks=job.setbacks + 1)
