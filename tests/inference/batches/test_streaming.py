"""Event streams of results: they end with their credential, and each user has a limit."""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from inference.batches.streaming import MAX_STREAMS_PER_USER
from tests.inference.batches.workers import submit_batch
from tests.inference.running_server import RunningServer, run_manage

TIMEOUT_SECONDS = 30


@contextlib.contextmanager
def streaming(stoa: RunningServer, batch_id: str, headers: dict[str, str]) -> Iterator[httpx2.Response]:
    url, accept = f"{stoa.url}/batch/{batch_id}/results", {"Accept": "text/event-stream"}
    with httpx2.stream("GET", url, headers=headers | accept, timeout=TIMEOUT_SECONDS) as answer:
        yield answer


def last_event(answer: httpx2.Response) -> Any:
    """Return the data of the last event before the server ends the stream."""
    lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    return json.loads(lines[-1].removeprefix("data: "))


_CREATE_KEY = """
from django.utils import timezone
from shared.accounts.models import User
from shared.accounts.services import create_api_key
user = User.objects.get(email="super_admin@example.com")
print(create_api_key(user=user, name="lent", now=timezone.now())[1])
"""
_REVOKE_KEY = """
from django.utils import timezone
from shared.accounts.models import ApiKey
ApiKey.objects.filter(name="lent").update(revoked_at=timezone.now())
"""


@pytest.mark.timeout(300)
def test_a_stream_ends_when_its_key_is_revoked(stoa: RunningServer):
    batch_id = submit_batch(stoa, "speak")
    key = run_manage(stoa.environment, "shell", "-v", "0", "-c", _CREATE_KEY).stdout.strip()

    with streaming(stoa, batch_id, {"Authorization": f"Bearer {key}"}) as answer:
        assert answer.status_code == 200
        assert run_manage(stoa.environment, "shell", "-v", "0", "-c", _REVOKE_KEY).returncode == 0
        begun = time.monotonic()
        event = last_event(answer)

    assert time.monotonic() < begun + TIMEOUT_SECONDS / 2
    assert event["error"]["code"] == "AUTHENTICATION_FAILED"
    with streaming(stoa, batch_id, stoa.headers()) as answer:
        assert answer.status_code == 200
        assert stoa.post(f"/batch/{batch_id}/cancel").status_code == 200
        assert last_event(answer) == {"done": True, "status": "cancelled", "total": 1, "completed": 0, "failed": 0}


def test_each_user_has_a_limit_of_open_streams(stoa: RunningServer):
    own, foreign = submit_batch(stoa, "speak"), stoa.post("/batch", GOOD, role="STORE_OWNER").json()["batch_id"]
    with contextlib.ExitStack() as streams:
        for _ in range(MAX_STREAMS_PER_USER):
            assert streams.enter_context(streaming(stoa, own, stoa.headers())).status_code == 200
        refused = streams.enter_context(streaming(stoa, own, stoa.headers()))
        assert refused.status_code == 503
        assert json.loads(refused.read())["error"]["code"] == "INFERENCE_FAILED"
        assert streams.enter_context(streaming(stoa, foreign, stoa.headers("STORE_OWNER"))).status_code == 200

    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:  # closed streams no longer count
        with streaming(stoa, own, stoa.headers()) as answer:
            if answer.status_code == 200:
                break
        assert time.monotonic() < deadline
        time.sleep(0.1)


GOOD = {"model": "talker", "requests": [{"id": "a", "prompt": "speak"}]}
