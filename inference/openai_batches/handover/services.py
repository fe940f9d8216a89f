"""Services of hand-overs: create one with its batch, advance those that are due, and give batches back.

A worker advances a hand-over under a lease, which expires if it is killed; the next one goes on from the row.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from tempfile import TemporaryFile
from typing import IO

import httpx2
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet, Sum
from django.utils import timezone

from inference.batches.dispatch import dispatch_batch
from inference.batches.models import Batch
from inference.config.celery import send
from inference.openai_batches.handover.member_client import (
    READ_TIMEOUT_SECONDS,
    REQUESTS_CHECKED_PER_SECOND,
    MemberBatch,
    MemberClient,
    MemberRefused,
    MemberUnavailable,
)
from inference.openai_batches.handover.results import record_results, request_lines
from inference.openai_batches.input_file import TooManyLines
from inference.openai_batches.models import FileBatch, Handover
from inference.pools.cache import read_pools
from inference.pools.definitions import Member
from inference.pools.models import EMBEDDINGS, TEXT_GENERATION
from inference.pools.states import READY, check_members
from inference.remote.configuration import RemoteModel
from inference.usage.quotas import find_used_up_message
from shared.observability.metrics import Counter
from shared.transactions import close_connection

HANDED_OVER = Counter(
    "stoa_batches_handed_over_total", "Batches that were handed over to a pool member, by how.", "how"
)

ADVANCE_TASK = "inference.openai_batches.tasks.advance"
LEASE_DURATION = timedelta(minutes=3)  # longer than a call may take
POLL_INTERVAL = timedelta(seconds=10)
RETRY_DELAY = timedelta(seconds=20)
LOST_AFTER = timedelta(minutes=10)  # without an answer
CANCEL_TRIED_FOR = timedelta(days=2)
FETCH_BEFORE_EXPIRY = timedelta(minutes=15)  # a member may take ten to cancel a batch
MAX_PER_SWEEP = 100
MAY_EXCEED_QUOTA = "It may exceed a monthly quota, at which our own workers stop."
ERROR_LENGTH = 500
State = Handover.State

logger = structlog.get_logger(__name__)


class _Interrupted(Exception):
    """The worker ends, or another one has the lease."""


def hand_over_if_offered(file_batch: FileBatch, *, now: datetime) -> None:
    """Create a hand-over for a new batch if its model's pool takes whole batches. Runs in the caller's transaction."""
    job = file_batch.job
    if job is None or not members_taking_batches(job):
        return
    row = Handover.objects.create(
        job=job, batch_id=job.batch_id, model_id=job.model_id, due_at=now, answered_at=now, created_at=now
    )
    job.resume_at = job.expires_at
    job.save(update_fields=["resume_at"])
    transaction.on_commit(partial(send, ADVANCE_TASK, handover_pk=row.pk), robust=True)


def members_taking_batches(job: Batch) -> list[Member]:
    """Return the members to which a batch can be handed: of a pool without a model of this machine."""
    pool = read_pools().get(job.model_id)
    if pool is None or pool.local:
        return []
    capability = EMBEDDINGS if job.kind == Batch.Kind.EMBEDDING else TEXT_GENERATION
    members = pool.members_for(capability)
    return [member for member in members if member.takes_batches and not member.is_draining and not member.error]


def sweep_handovers(*, now: datetime, ending: threading.Event) -> None:
    """Send the task for hand-overs that are due. If the broker cannot be reached, they are advanced here."""
    is_sent = True
    for handover_pk in list(_due(now).order_by("due_at").values_list("pk", flat=True)[:MAX_PER_SWEEP]):
        is_sent = is_sent and send(ADVANCE_TASK, handover_pk=handover_pk)
        if not is_sent:
            advance_handover(handover_pk=handover_pk, ending=ending)
    Handover.objects.filter(state=State.ENDED, created_at__lte=now - settings.BATCH_RETENTION).delete()


def _due(now: datetime) -> QuerySet[Handover]:
    """Return the hand-overs whose next step is due, and that no worker advances."""
    has_ended = Q(state=State.RUNNING) & (Q(job=None) | Q(job__ended_at__isnull=False))
    return Handover.objects.filter(_is_free(now), Q(due_at__lte=now) | has_ended).exclude(state=State.ENDED)


def _is_free(now: datetime) -> Q:
    return Q(lease_expires_at=None) | Q(lease_expires_at__lte=now)


def advance_handover(
    *, handover_pk: int, ending: threading.Event, clock: Callable[[], datetime] = timezone.now
) -> bool:
    """Do the next step of a hand-over that is due. Return whether this call did; only one of concurrent calls does."""
    now = clock()
    if not _due(now).filter(pk=handover_pk).exists():
        return False
    rows = Handover.objects.filter(pk=handover_pk).exclude(state=State.ENDED)
    if not rows.filter(_is_free(now)).update(lease_expires_at=now + LEASE_DURATION):
        return False
    row = Handover.objects.select_related("job").get(pk=handover_pk)
    with httpx2.Client(follow_redirects=False) as client:
        step = _Step(row, client, ending, clock)
        try:
            step.run()
        except _Interrupted:
            logger.info("batch_handover_interrupted", batch=row.batch_id, state=row.state)
            rows.filter(lease_expires_at=step.lease_expires_at).update(lease_expires_at=None)
    return True


class _Step:
    """One step of a hand-over under a lease."""

    def __init__(
        self, row: Handover, client: httpx2.Client, ending: threading.Event, clock: Callable[[], datetime]
    ) -> None:
        self._row = row
        self._client = client
        self._ending = ending
        self._clock = clock
        self.lease_expires_at = row.lease_expires_at

    def run(self) -> None:
        """Do the step, and save when the next one is due."""
        now = self._clock()
        if now > self._row.due_at + LOST_AFTER:  # no worker has asked the member meanwhile
            self._save(answered_at=now, due_at=now, keep_lease=True)
        try:
            if self._row.state == State.SENDING:
                self._send()
            elif self._row.state == State.RUNNING:
                self._follow()
            else:
                self._cancel()
        except MemberRefused as error:
            self._give_back(str(error))
        except TooManyLines:
            self._give_back("It has more results than the batch has requests.")
        except (MemberUnavailable, OSError) as error:  # OSError: a full disk
            if self._clock() > self._row.answered_at + LOST_AFTER and self._row.state != State.CANCELLING:
                self._give_back(f"{error} It has not answered for {LOST_AFTER.total_seconds() / 60:.0f} minutes.")
            else:
                self._save(due_at=self._clock() + RETRY_DELAY)

    def _send(self) -> None:
        """Upload the requests, and create the batch at the member."""
        row, job = self._row, self._row.job
        if job is None or job.ended_at is not None:
            self._save(state=State.CANCELLING if row.remote_file_id else State.ENDED)
            return
        is_within_quota = self._is_within_quota(job)
        model = self._choose_member(job) if is_within_quota else None
        if model is None:
            reason = "No member that takes whole batches is ready." if is_within_quota else MAY_EXCEED_QUOTA
            self._give_back(reason)
            return
        api = MemberClient(model, self._client, self._before_call)
        endpoint = FileBatch.objects.get(job=job).endpoint
        batch = self._find_batch(api)
        if not row.remote_file_id:
            with TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR) as content:
                self._write(content, request_lines(job, endpoint=endpoint, model_name=model.name))
                file_id = api.upload(content, content.tell())
            self._save(remote_file_id=file_id, answered_at=self._clock(), keep_lease=True)
        seconds = READ_TIMEOUT_SECONDS + job.total / REQUESTS_CHECKED_PER_SECOND
        self._renew(LEASE_DURATION + timedelta(seconds=seconds))
        batch = batch or api.create_batch(
            file_id=row.remote_file_id, endpoint=endpoint, key=row.batch_id, timeout_seconds=seconds
        )
        now = self._clock()
        self._save(state=State.RUNNING, remote_batch_id=batch.id, answered_at=now, due_at=now + POLL_INTERVAL)
        HANDED_OVER.add(1, "handed_over")
        logger.info("batch_handed_over", batch=row.batch_id, model=row.model_id, member=row.member)

    def _is_within_quota(self, job: Batch) -> bool:
        """Return whether this batch and those that members have are within the user's monthly quotas."""
        running = Batch.objects.filter(user=job.user_id, ended_at=None, handover__state=State.RUNNING)
        tokens = job.reserved_tokens + (running.aggregate(tokens=Sum("reserved_tokens"))["tokens"] or 0)
        now = self._clock()
        return not find_used_up_message(user_id=job.user_id, api_key_id=job.api_key_id, now=now, tokens=max(tokens, 1))

    def _choose_member(self, job: Batch) -> RemoteModel | None:
        """Return the member of the row, or the one with the fewest hand-overs by its weight, and save its name."""
        members = members_taking_batches(job)
        if self._row.remote_file_id:  # a file of the member that was chosen
            members = [member for member in members if member.name == self._row.member]
        self._before_call()
        ready = [state.member for state in check_members(members) if state.state == READY]
        open_rows = Handover.objects.filter(model_id=self._row.model_id).exclude(state=State.ENDED)
        names = list(open_rows.exclude(pk=self._row.pk).values_list("member", flat=True))
        chosen = min(ready, key=lambda member: (names.count(member.name) + 1) / member.weight, default=None)
        if chosen is None or not isinstance(chosen.model, RemoteModel):
            return None
        self._save(member=chosen.name, keep_lease=True)
        return chosen.model

    def _follow(self) -> None:
        """Read the state of the member's batch. Fetch its results if it has ended."""
        row, job = self._row, self._row.job
        if job is None or job.ended_at is not None:
            self._save(state=State.CANCELLING, keep_lease=True)
            self._cancel()
            return
        api = self._client_of_member()
        batch = api.read_batch(row.remote_batch_id)
        now = self._clock()
        if not batch.has_ended:
            if now > job.expires_at - FETCH_BEFORE_EXPIRY:  # what it has done by then is ours
                with suppress(MemberRefused):
                    api.cancel_batch(batch.id)
            self._save(answered_at=now, due_at=now + POLL_INTERVAL)
            return
        for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
            chunks = self._received(api.read_file(file_id))
            record_results(job, chunks, api_key=api.api_key, clock=self._clock, on_recorded=self._note_answer)
        self._give_back(f"The member's batch is {batch.status}.", keep_lease=True)
        self._cancel()

    def _received(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks of a file under the lease, within what a user may have, and while they have results."""
        size = 0
        for chunk in chunks:
            self._renew()
            size += len(chunk)
            if size > settings.MAX_BATCH_BYTES_PER_USER:
                raise MemberRefused("Its results take more bytes than all batches of a user may.")
            if self._clock() > self._row.answered_at + LOST_AFTER:
                raise MemberUnavailable("Its file goes on without results.")
            yield chunk
            close_connection()

    def _note_answer(self) -> None:
        self._save(answered_at=self._clock(), keep_lease=True)

    def _find_batch(self, api: MemberClient) -> MemberBatch | None:
        """Return the batch at the member, also one whose creation no worker has noted."""
        if self._row.remote_batch_id:
            return api.read_batch(self._row.remote_batch_id)
        if self._row.remote_file_id:
            with suppress(MemberRefused):  # a server without lists
                return api.find_batch(self._row.remote_file_id)
        return None

    def _cancel(self) -> None:
        """Cancel the member's batch, and delete the files once it has ended."""
        row = self._row
        try:
            api = self._client_of_member()
            self._delete_files(api, self._end_batch(api))
        except MemberRefused as error:
            logger.warning("batch_handover_cancel_refused", batch=row.batch_id, member=row.member, reason=str(error))
        except MemberUnavailable:
            if self._clock() < row.created_at + CANCEL_TRIED_FOR:
                raise
        self._save(state=State.ENDED)

    def _end_batch(self, api: MemberClient) -> MemberBatch | None:
        """Return the member's batch once it has ended, and None if it has none."""
        try:
            batch = self._find_batch(api)
            if batch and not batch.has_ended:
                with suppress(MemberRefused):  # it has ended just now
                    api.cancel_batch(batch.id)
                batch = api.read_batch(batch.id)
        except MemberRefused:
            return None
        if batch and not batch.has_ended:
            raise MemberUnavailable("Its batch is being cancelled.")
        return batch

    def _give_back(self, reason: str, *, keep_lease: bool = False) -> None:
        """Let our own workers run what has no result, if anything has none, and clean up at the member."""
        row, now = self._row, self._clock()
        job_pk = row.job_id or 0  # 0: the batch was deleted
        with transaction.atomic():
            batches = Batch.objects.filter(pk=job_pk, ended_at=None)
            is_unfinished = bool(batches.update(resume_at=now, sent_at=None))
            if is_unfinished:
                transaction.on_commit(partial(dispatch_batch, batch_pk=job_pk, now=now), robust=True)
            state = State.CANCELLING if row.remote_file_id else State.ENDED
            error = reason[:ERROR_LENGTH] if is_unfinished else ""
            self._save(state=state, error=error, due_at=now, keep_lease=keep_lease)
        if is_unfinished:
            HANDED_OVER.add(1, "given_back")
            logger.warning("batch_given_back", batch=row.batch_id, member=row.member, reason=reason)

    def _delete_files(self, api: MemberClient, batch: MemberBatch | None) -> None:
        """Delete the files at the member, whose retention would end later."""
        output = (batch.output_file_id, batch.error_file_id) if batch else ()
        for file_id in filter(None, (self._row.remote_file_id, *output)):
            try:
                api.delete_file(file_id)
            except MemberRefused as error:
                logger.info("batch_handover_file_left", batch=self._row.batch_id, reason=str(error))

    def _client_of_member(self) -> MemberClient:
        """Return the client of the row's member, draining or not. Raise MemberRefused if it was removed."""
        pool = read_pools().get(self._row.model_id)
        for member in pool.members if pool else ():
            if member.name == self._row.member and isinstance(member.model, RemoteModel):
                return MemberClient(member.model, self._client, self._before_call)
        raise MemberRefused("It is not in the pool any more.")

    def _before_call(self) -> None:
        """Renew the lease, which a call must not outlast, and hold no database connection during it."""
        self._renew()
        close_connection()

    def _write(self, content: IO[bytes], lines: Iterable[bytes]) -> None:
        for number, line in enumerate(lines):
            content.write(line)
            if number % 1000 == 0:
                self._renew()

    def _renew(self, duration: timedelta = LEASE_DURATION) -> None:
        """Renew the lease. Raise _Interrupted if the worker ends, or if another one has it."""
        if self._ending.is_set():
            raise _Interrupted
        now = self._clock()
        if self.lease_expires_at and self.lease_expires_at - now > duration * 0.9:
            return
        rows = Handover.objects.filter(pk=self._row.pk, lease_expires_at=self.lease_expires_at)
        if not rows.update(lease_expires_at=now + duration):
            raise _Interrupted
        self.lease_expires_at = now + duration

    def _save(self, *, keep_lease: bool = False, **values: object) -> None:
        """Save these fields under the lease, and end it. Raise _Interrupted if another worker has it."""
        rows = Handover.objects.filter(pk=self._row.pk, lease_expires_at=self.lease_expires_at)
        lease = {"lease_expires_at": self.lease_expires_at if keep_lease else None}
        if not rows.update(**values, **lease):
            raise _Interrupted
        for name, value in values.items():
            setattr(self._row, name, value)
        if not keep_lease:
            self.lease_expires_at = None
