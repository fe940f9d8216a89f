"""Row B3: OpenAI's batches while the broker is unavailable."""

import tempfile
from pathlib import Path

import pytest

from shared.serving.processes.local_redis import LocalRedis
from tests.inference.batches.workers import running_server_with_broker, running_worker
from tests.inference.openai_batches.clients import CHAT, create_batch, download_lines, wait_until_ended

pytestmark = pytest.mark.no_database


@pytest.mark.timeout(300)
def test_b3_a_worker_writes_output_files_without_a_broker():
    with (
        tempfile.TemporaryDirectory(prefix="stoa") as folder,
        LocalRedis(Path(folder) / "redis") as broker,
        running_server_with_broker({"REDIS_URL": broker.url}) as stoa,
        running_worker(stoa),
    ):
        assert wait_until_ended(stoa, create_batch(stoa, CHAT, [{}])["id"])["status"] == "completed"
        broker.stop()
        batch = wait_until_ended(stoa, create_batch(stoa, CHAT, [{}] * 5)["id"])

        assert batch["status"] == "completed"
        assert len(download_lines(stoa, batch["output_file_id"])) == 5
