"""Row B3: batches of files while the broker is away."""

import tempfile
from pathlib import Path

import pytest

from shared.serving.local_redis import LocalRedis
from tests.inference.batches.workers import running_worker, served_with_broker
from tests.inference.openai_batches.clients import CHAT, ended, lines_of, make


@pytest.mark.timeout(300)
def test_b3_a_worker_writes_the_files_of_a_batch_while_the_broker_is_away():
    with (
        tempfile.TemporaryDirectory(prefix="stoa") as folder,
        LocalRedis(Path(folder) / "redis") as broker,
        served_with_broker({"REDIS_URL": broker.url}) as stoa,
        running_worker(stoa),
    ):
        assert ended(stoa, make(stoa, CHAT, [{}])["id"])["status"] == "completed"
        broker.stop()
        told = ended(stoa, make(stoa, CHAT, [{}] * 5)["id"])

        assert told["status"] == "completed"
        assert len(lines_of(stoa, told["output_file_id"])) == 5
