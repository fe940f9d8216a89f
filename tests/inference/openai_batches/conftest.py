"""Two users with clients of their own, files in a temporary folder, and a worker that answers as it is told."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from inference.batches import leases, outcomes
from inference.batches.models import Batch
from inference.batches.outcomes import Outcome
from inference.files.models import StoredFile
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHAT = "/v1/chat/completions"
MODEL = "stoa-describer"


class Asker:
    """A user, and what they ask of the server."""

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
def asker(db: None, settings: Settings, tmp_path: Path) -> Asker:
    settings.MEDIA_ROOT = tmp_path
    return Asker("a@example.com")


@pytest.fixture
def stranger(asker: Asker) -> Asker:
    return Asker("b@example.com")


def chat_lines(*ids: str) -> bytes:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}
    wanted = [{"custom_id": one, "method": "POST", "url": CHAT, "body": body} for one in ids]
    return b"\n".join(json.dumps(line).encode() for line in wanted)


def work(batch_id: str, *done: Outcome | None) -> Batch:
    """A worker's turn: each request in order ends so; None leaves it running."""
    batch, now = Batch.objects.get(batch_id=batch_id), timezone.now()
    lease = leases.open_lease(batch_pk=batch.pk, worker="w", now=now)
    assert lease is not None
    claimed = leases.claim(lease_id=lease, batch_pk=batch.pk, most=len(done))
    ended = [_of(one, row.pk) for one, row in zip(done, claimed, strict=True) if one is not None]
    outcomes.store(lease_id=lease, batch_pk=batch.pk, outcomes=ended, now=now)
    leases.close_lease(lease_id=lease, batch_pk=batch.pk)
    batch.refresh_from_db()
    return batch


def _of(outcome: Outcome, request: int) -> Outcome:
    return Outcome(
        request=request,
        answer=outcome.answer,
        error_code=outcome.error_code,
        error_message=outcome.error_message,
    )


ANSWERED = Outcome(request=0, answer='{"id":"chatcmpl-1","choices":[]}')
TOO_LONG = Outcome(request=0, error_code="CONTEXT_LENGTH_EXCEEDED", error_message="The prompt is too long.")
