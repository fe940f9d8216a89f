"""Two users with API clients, files in a temporary folder, and a fake worker."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from inference.batches.models import Batch
from inference.batches.worker import leases, recording
from inference.batches.worker.recording import RequestOutcome
from inference.files.models import StoredFile
from inference.pools import cache
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user
from tests.inference.openai_batches.fake_member import FakeMember, running_member
from tests.inference.openai_batches.handover_helpers import THEIR_NAME, add_member

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHAT = "/v1/chat/completions"
MODEL = "stoa-describer"


class ApiUser:
    """A user with an API client."""

    def __init__(self, email: str) -> None:
        self.user = create_user(email=email, name="A", password="a lamp for every room", role=Role.STAFF, now=NOW)
        key = create_api_key(user=self.user, name="test", now=NOW)[1]
        self._client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {key}"})

    def upload(self, content: bytes) -> str:
        form = {"purpose": "batch", "file": SimpleUploadedFile("lines.jsonl", content)}
        answer = self._client.post("/v1/files", form)
        assert answer.status_code == 200, answer.content
        return str(answer.json()["id"])

    def post(self, path: str, body: object = None, headers: dict[str, str] | None = None) -> Any:
        return self._client.post(path, json.dumps(body or {}), content_type="application/json", headers=headers)

    def get(self, path: str) -> Any:
        return self._client.get(path)

    def delete(self, path: str) -> Any:
        return self._client.delete(path)

    def make(self, content: bytes, **other: Any) -> Any:
        body = {"input_file_id": self.upload(content), "endpoint": CHAT, "completion_window": "24h"} | other
        answer = self.post("/v1/batches", body)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def read_lines(self, file_id: str) -> list[dict[str, Any]]:
        path = StoredFile.objects.for_user(self.user).get(file_id=file_id).path
        with default_storage.open(path) as content:
            return [json.loads(line) for line in content]


@pytest.fixture
def api_user(db: None, settings: Settings, tmp_path: Path) -> ApiUser:
    settings.MEDIA_ROOT = tmp_path
    return ApiUser("a@example.com")


@pytest.fixture
def other_user(api_user: ApiUser) -> ApiUser:
    return ApiUser("b@example.com")


@pytest.fixture
def member(api_user: ApiUser) -> Iterator[FakeMember]:
    """Yield the only member of a pool, which takes whole batches."""
    with running_member(THEIR_NAME) as running:
        add_member(running)
        yield running
    cache.use_only()
    cache.expire()


def chat_lines(*ids: str) -> bytes:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}
    lines = [{"custom_id": one, "method": "POST", "url": CHAT, "body": body} for one in ids]
    return b"\n".join(json.dumps(line).encode() for line in lines)


def run_worker(batch_id: str, *done: RequestOutcome | None) -> Batch:
    """Act as a worker: end the requests in order with these outcomes; None leaves one running."""
    batch, now = Batch.objects.get(batch_id=batch_id), timezone.now()
    lease = leases.acquire_lease(batch_pk=batch.pk, worker="w", now=now)
    assert lease is not None
    claimed = leases.claim_requests(lease_id=lease, batch_pk=batch.pk, limit=len(done))
    ended = [_of(one, row.pk) for one, row in zip(done, claimed, strict=True) if one is not None]
    recording.record_outcomes(lease_id=lease, batch_pk=batch.pk, outcomes=ended, now=now)
    leases.release_lease(lease_id=lease, batch_pk=batch.pk)
    batch.refresh_from_db()
    return batch


def _of(outcome: RequestOutcome, request: int) -> RequestOutcome:
    return RequestOutcome(
        request=request,
        answer=outcome.answer,
        error_code=outcome.error_code,
        error_message=outcome.error_message,
    )


ANSWERED = RequestOutcome(request=0, answer='{"id":"chatcmpl-1","choices":[]}')
TOO_LONG = RequestOutcome(request=0, error_code="CONTEXT_LENGTH_EXCEEDED", error_message="The prompt is too long.")
