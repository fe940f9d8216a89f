"""Who follows results for hours is looked after meanwhile, as at a socket."""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from inference.batches.streaming import MOST_FOLLOWED
from tests.inference.batches.workers import submit
from tests.inference.served import ServedStoa, run_manage

WITHIN_S = 30


@contextlib.contextmanager
def following(stoa: ServedStoa, batch_id: str, headers: dict[str, str]) -> Iterator[httpx2.Response]:
    url, accept = f"{stoa.url}/batch/{batch_id}/results", {"Accept": "text/event-stream"}
    with httpx2.stream("GET", url, headers=headers | accept, timeout=WITHIN_S) as answer:
        yield answer


def last_event(answer: httpx2.Response) -> Any:
    """Once the server has ended the stream. A keep-alive, and then none, is no end."""
    lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    return json.loads(lines[-1].removeprefix("data: "))


_LEND = """
from django.utils import timezone
from shared.accounts.models import User
from shared.accounts.services import create_api_key
user = User.objects.get(email="super_admin@example.com")
print(create_api_key(user=user, name="lent", now=timezone.now())[1])
"""
_TAKE_BACK = """
from django.utils import timezone
from shared.accounts.models import ApiKey
ApiKey.objects.filter(name="lent").update(revoked_at=timezone.now())
"""


@pytest.mark.timeout(300)
def test_whose_key_is_revoked_follows_no_longer(stoa: ServedStoa):
    batch_id = submit(stoa, "speak")
    key = run_manage(stoa.environment, "shell", "-v", "0", "-c", _LEND).stdout.strip()

    with following(stoa, batch_id, {"Authorization": f"Bearer {key}"}) as answer:
        assert answer.status_code == 200
        assert run_manage(stoa.environment, "shell", "-v", "0", "-c", _TAKE_BACK).returncode == 0
        begun = time.monotonic()
        told = last_event(answer)

    assert time.monotonic() < begun + WITHIN_S / 2
    assert told["error"]["code"] == "AUTHENTICATION_FAILED"
    with following(stoa, batch_id, stoa.headers()) as answer:
        assert answer.status_code == 200
        assert stoa.post(f"/batch/{batch_id}/cancel").status_code == 200
        assert last_event(answer) == {"done": True, "status": "cancelled", "total": 1, "completed": 0, "failed": 0}


def test_a_user_follows_so_many_at_once_and_others_find_room(stoa: ServedStoa):
    mine, others = submit(stoa, "speak"), stoa.post("/batch", GOOD, role="STORE_OWNER").json()["batch_id"]
    with contextlib.ExitStack() as open_ones:
        for _ in range(MOST_FOLLOWED):
            assert open_ones.enter_context(following(stoa, mine, stoa.headers())).status_code == 200
        refused = open_ones.enter_context(following(stoa, mine, stoa.headers()))
        assert refused.status_code == 503
        assert json.loads(refused.read())["error"]["code"] == "INFERENCE_FAILED"
        assert open_ones.enter_context(following(stoa, others, stoa.headers("STORE_OWNER"))).status_code == 200

    deadline = time.monotonic() + WITHIN_S
    while True:  # who has left makes room
        with following(stoa, mine, stoa.headers()) as answer:
            if answer.status_code == 200:
                break
        assert time.monotonic() < deadline
        time.sleep(0.1)


GOOD = {"model": "talker", "requests": [{"id": "a", "prompt": "speak"}]}
