"""Batches that are handed over to a fake member, and the steps of workers."""

import json
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from inference.batches.models import Batch
from inference.batches.worker import leases
from inference.openai_batches.handover.services import advance_handover
from inference.openai_batches.models import Handover
from inference.pools import cache
from inference.pools.models import PoolMember
from inference.pools.services import save_member
from tests.inference.openai_batches.fake_member import KEY, FakeMember, Line

if TYPE_CHECKING:
    from tests.inference.openai_batches.conftest import ApiUser

MODEL, THEIR_NAME = "big", "llama-70b"
BODY = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}


def add_member(running: FakeMember, **changes: Any) -> PoolMember:
    values = {"model_id": MODEL, "name": "one", "kind": "openai", "model_name": THEIR_NAME, "takes_batches": True}
    row = PoolMember(**values | {"base_url": running.url} | changes)
    save_member(member=row, api_key="" if row.kind == "local" else KEY, actor=None, now=timezone.now())
    cache.expire()
    return row


def make_batch(user: "ApiUser", *ids: str, endpoint: str = "/v1/chat/completions", body: Line = BODY) -> Batch:
    lines = [{"custom_id": one, "method": "POST", "url": endpoint, "body": body} for one in ids]
    made = user.make(b"\n".join(json.dumps(line).encode() for line in lines), endpoint=endpoint)
    return Batch.objects.get(batch_id=made["id"])


def advance(job: Batch, after: timedelta = timedelta(0)) -> Handover:
    """Do a step as a worker does, so long from now."""
    row = Handover.objects.get(batch_id=job.batch_id)
    advance_handover(handover_pk=row.pk, ending=threading.Event(), clock=lambda: timezone.now() + after)
    row.refresh_from_db()
    return row


def completed(line: Line) -> Line:
    """Answer a request as OpenAI does."""
    message = {"role": "assistant", "content": f"answer {line['custom_id']}"}
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    body = {"id": "chatcmpl-1", "model": THEIR_NAME, "choices": [{"message": message}], "usage": usage}
    return {"status_code": 200, "request_id": "r", "body": body}


def failed(status: int, code: str, message: str = "It is wrong.") -> Line:
    return {"status_code": status, "request_id": "r", "body": {"error": {"message": message, "code": code}}}


def claim(job: Batch) -> list[int]:
    """Return the indexes that a worker of ours gets to run."""
    lease = leases.acquire_lease(batch_pk=job.pk, worker="ours", now=timezone.now() + timedelta(hours=1))
    claimed = leases.claim_requests(lease_id=lease, batch_pk=job.pk, limit=100) if lease else []
    return [request.index for request in claimed]
