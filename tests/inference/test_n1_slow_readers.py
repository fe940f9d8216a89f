"""Row N1: readers that read nothing of the model server's longest responses hold no connection to PostgreSQL."""

import time
from typing import Any

import httpx2
import pytest

from tests.inference.batches.workers import running_worker, submit_batch, wait_until_ended
from tests.inference.running_server import RunningServer
from tests.migrated_database import is_postgresql
from tests.network.slow_readers import MIN_BLOCKING_BYTES, connections_in_use, slow_readers

pytestmark = pytest.mark.skipif(not is_postgresql(), reason="SQLite has no pool of connections.")

SPEECH = {"model": "talker", "prompt": "shout", "max_tokens": 150, "stream": True}  # 64 KiB a token


@pytest.fixture(scope="module")
def batch_id(stoa: RunningServer) -> str:
    """Return the id of a batch with results of 13 MB."""
    with running_worker(stoa):
        batch_id = submit_batch(stoa, *["shout"] * 20, max_tokens=10)
        assert wait_until_ended(stoa, batch_id)["completed"] == 20
    return batch_id


@pytest.fixture(scope="module")
def file_id(stoa: RunningServer) -> str:
    files = {"file": ("lines.jsonl", b'{"custom_id": "a"}\n' * 500_000, "application/jsonl")}
    answer = httpx2.post(
        f"{stoa.url}/v1/files", data={"purpose": "batch"}, files=files, headers=stoa.headers(), timeout=60
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


REQUESTS: dict[str, dict[str, Any]] = {
    "a file": {"method": "GET", "url": "/v1/files/{file_id}/content"},
    "lines": {"method": "GET", "url": "/batch/{batch_id}/results", "headers": {"Accept": "application/x-ndjson"}},
    "events": {"method": "GET", "url": "/batch/{batch_id}/results", "headers": {"Accept": "text/event-stream"}},
    "a generation": {"method": "POST", "url": "/v1/completions", "json": SPEECH},
    "a stored one": {"method": "POST", "url": "/v1/completions", "json": SPEECH, "headers": {"Idempotency-Key": "n1"}},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_n1_readers_that_read_nothing_hold_no_connection_and_delay_nobody(
    stoa: RunningServer, batch_id: str, file_id: str, name: str
):
    wanted = REQUESTS[name] | {"url": REQUESTS[name]["url"].format(batch_id=batch_id, file_id=file_id)}
    with httpx2.Client(base_url=stoa.url, headers=stoa.headers(), timeout=60) as client:
        whole = client.send(request := client.build_request(**wanted))
    assert (whole.status_code, len(whole.content) >= MIN_BLOCKING_BYTES) == (200, True), whole.content[:200]

    with slow_readers(request):
        assert connections_in_use(stoa.environment["DATABASE_URL"]) == []
        begun = time.monotonic()
        statuses = [stoa.get("/v1/files", role="STAFF").status_code for _ in range(6)]

    assert statuses == [200] * 6
    assert time.monotonic() - begun < 3, "a request waits ten seconds for a connection of the pool"
