"""Services of hand-overs: create one with its batch, advance those that are due, and give batches back.

A worker advances a hand-over under a lease, which expires if it is killed; the next one goes on from the row.
"""

import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from tempfile import TemporaryFile
from typing import IO

import httpx2
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
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
from inference.openai_batches.models import FileBatch, Handover
from inference.pools.cache import read_pools
from inference.pools.definitions import Member
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
MAX_PER_SWEEP = 100
ERROR_LENGTH = 500
State = Handover.State

logger = structlog.get_logger(__name__)


class _Interrupted(Exception):
    """The worker ends, or another one has the lease."""


def hand_over_if_offered(file_batch: FileBatch, *, now: datetime) -> None:
    """Create a hand-over for a new batch if its model's pool takes whole batches. Runs in the caller's transaction."""
    job = file_batch.job
    if job is None or not members_taking_batches(job.model_id):
        return
    row = Handover.objects.create(
        job=job, batch_id=job.batch_id, model_id=job.model_id, due_at=now, answered_at=now, created_at=now
    )
    job.resume_at = job.expires_at
    job.save(update_fields=["resume_at"])
    transaction.on_commit(partial(send, ADVANCE_TASK, handover_pk=row.pk), robust=True)


def members_taking_batches(model_id: str) -> list[Member]:
    """Return the members to which a batch can be handed: of a pool without a model of this machine."""
    pool = read_pools().get(model_id)
    if pool is None or pool.local:
        return []
    return [member for member in pool.members if member.takes_batches and not member.is_draining and not member.error]


def sweep_handovers(*, now: datetime, ending: threading.Event) -> None:
    """Send the task for hand-overs that are due. If the broker cannot be reached, they are advanced here."""
    is_free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=now)
    has_ended = Q(state=State.RUNNING) & (Q(job=None) | Q(job__ended_at__isnull=False))
    rows = Handover.objects.filter(is_free, Q(due_at__lte=now) | has_ended).exclude(state=State.ENDED)
    is_sent = True
    for handover_pk in list(rows.order_by("due_at").values_list("pk", flat=True)[:MAX_PER_SWEEP]):
        is_sent = is_sent and send(ADVANCE_TASK, handover_pk=handover_pk)
        if not is_sent:
            advance_handover(handover_pk=handover_pk, ending=ending)
    Handover.objects.filter(state=State.ENDED, created_at__lte=now - settings.BATCH_RETENTION).delete()


def advance_handover(
    *, handover_pk: int, ending: threading.Event, clock: Callable[[], datetime] = timezone.now
) -> bool:
    """Do the next step of a hand-over. Return whether this call did; only one of concurrent calls does."""
    now = clock()
    rows = Handover.objects.filter(pk=handover_pk).exclude(state=State.ENDED)
    is_free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=now)
    expires_at = now + LEASE_DURATION
    if not rows.filter(is_free).update(lease_expires_at=expires_at):
        return False
    row = Handover.objects.select_related("job").get(pk=handover_pk)
    close_connection()
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
        try:
            if self._row.state == State.SENDING:
                self._send()
            elif self._row.state == State.RUNNING:
                self._follow()
            else:
                self._cancel()
        except MemberRefused as error:
            self._give_back(str(error))
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
        message = find_used_up_message(user_id=job.user_id, api_key_id=job.api_key_id, now=self._clock())
        model = None if message else self._choose_member()
        if model is None:
            self._give_back(message or "No member that takes whole batches is ready.")
            return
        api = MemberClient(model, self._client)
        endpoint = FileBatch.objects.get(job=job).endpoint
        if not row.remote_file_id:
            with TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR) as content:
                self._write(content, request_lines(job, endpoint=endpoint, model_name=model.name))
                close_connection()
                file_id = api.upload(content, content.tell(), on_part=self._renew)
            self._save(remote_file_id=file_id, keep_lease=True)
        seconds = READ_TIMEOUT_SECONDS + job.total / REQUESTS_CHECKED_PER_SECOND
        self._renew(LEASE_DURATION + timedelta(seconds=seconds))
        batch = api.create_batch(
            file_id=row.remote_file_id, endpoint=endpoint, key=row.batch_id, timeout_seconds=seconds
        )
        now = self._clock()
        self._save(state=State.RUNNING, remote_batch_id=batch.id, answered_at=now, due_at=now + POLL_INTERVAL)
        HANDED_OVER.add(1, "handed_over")
        logger.info("batch_handed_over", batch=row.batch_id, model=row.model_id, member=row.member)

    def _choose_member(self) -> RemoteModel | None:
        """Return the member of the row, or the one with the fewest hand-overs by its weight, and save its name."""
        members = members_taking_batches(self._row.model_id)
        if self._row.remote_file_id:  # a file of the member that was chosen
            members = [member for member in members if member.name == self._row.member]
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
            self._save(answered_at=now, due_at=now + POLL_INTERVAL)
            return
        for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
            record_results(
                batch_pk=job.pk,
                model_id=row.model_id,
                chunks=api.read_file(file_id),
                clock=self._clock,
                on_page=self._renew,
            )
        self._delete_files(api, batch)
        self._give_back(f"The member's batch is {batch.status}.", is_clean=True)

    def _cancel(self) -> None:
        """Cancel the member's batch, and delete the files once it has ended."""
        row = self._row
        try:
            api = self._client_of_member()
            batch = api.read_batch(row.remote_batch_id) if row.remote_batch_id else None
            if batch and not batch.has_ended:
                api.cancel_batch(row.remote_batch_id)
                batch = api.read_batch(row.remote_batch_id)
            if batch and not batch.has_ended:
                raise MemberUnavailable("Its batch is being cancelled.")
            self._delete_files(api, batch)
        except MemberRefused as error:
            logger.warning("batch_handover_cancel_refused", batch=row.batch_id, member=row.member, reason=str(error))
        except MemberUnavailable:
            if self._clock() < row.created_at + CANCEL_TRIED_FOR:
                raise
        self._save(state=State.ENDED)

    def _give_back(self, reason: str, *, is_clean: bool = False) -> None:
        """Let our own workers run what has no result, if anything has none. is_clean: nothing is left at the member."""
        row, now = self._row, self._clock()
        job_pk = row.job_id or 0  # 0: the batch was deleted
        with transaction.atomic():
            batches = Batch.objects.filter(pk=job_pk, ended_at=None)
            is_unfinished = bool(batches.update(resume_at=now, sent_at=None))
            if is_unfinished:
                transaction.on_commit(partial(dispatch_batch, batch_pk=job_pk, now=now), robust=True)
                HANDED_OVER.add(1, "given_back")
                logger.warning("batch_given_back", batch=row.batch_id, member=row.member, reason=reason)
            state = State.CANCELLING if row.remote_file_id and not is_clean else State.ENDED
            self._save(state=state, error=reason[:ERROR_LENGTH] if is_unfinished else "", due_at=now)

    def _delete_files(self, api: MemberClient, batch: MemberBatch | None) -> None:
        """Delete the files at the member, whose retention would end later."""
        output = (batch.output_file_id, batch.error_file_id) if batch else ()
        for file_id in filter(None, (self._row.remote_file_id, *output)):
            try:
                api.delete_file(file_id)
            except (MemberRefused, MemberUnavailable) as error:
                logger.info("batch_handover_file_left", batch=self._row.batch_id, reason=str(error))

    def _client_of_member(self) -> MemberClient:
        """Return the client of the row's member, draining or not. Raise MemberRefused if it was removed."""
        pool = read_pools().get(self._row.model_id)
        for member in pool.members if pool else ():
            if member.name == self._row.member and isinstance(member.model, RemoteModel):
                return MemberClient(member.model, self._client)
        raise MemberRefused("It is not in the pool any more.")

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
