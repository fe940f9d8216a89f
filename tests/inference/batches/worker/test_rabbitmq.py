"""Rows B1, B3 and D6 with RabbitMQ as the broker, if it is installed."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.inference.batches.workers import (
    get_results,
    get_status,
    running_server_with_broker,
    running_worker,
    start_worker,
    submit_batch,
    wait_until_ended,
)
from tests.inference.running_server import RunningServer
from tests.rabbitmq import HOW_TO_GET_IT, LocalRabbitMQ, find_server

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_server() is None, reason=HOW_TO_GET_IT),
    pytest.mark.no_database,
]


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[LocalRabbitMQ]:
    server = find_server()
    assert server
    broker = LocalRabbitMQ(server)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def stoa(rabbitmq: LocalRabbitMQ) -> Iterator[RunningServer]:
    with running_server_with_broker({"STOA_BROKER_URL": rabbitmq.url}) as served:
        yield served


def test_b1_a_batch_completes_although_its_workers_are_killed(stoa: RunningServer):
    batch_id = submit_batch(stoa, *["speak"] * 300)
    for turn in range(3):
        worker = start_worker(stoa.environment, stoa.log.with_name("worker.log"))
        while get_status(stoa, batch_id)["completed"] <= turn * 40:
            time.sleep(0.05)
        os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.wait(30)
    with running_worker(stoa):
        assert wait_until_ended(stoa, batch_id, seconds=300)["completed"] == 300
    assert "Connected to amqp://" in stoa.log.with_name("worker.log").read_text()
    assert [result["id"] for result in get_results(stoa, batch_id)] == [f"r{place}" for place in range(300)]


def test_b3_d6_a_broker_restart_loses_no_batch_and_causes_no_error(stoa: RunningServer, rabbitmq: LocalRabbitMQ):
    batch_id = submit_batch(stoa, *["speak"] * 200)
    with running_worker(stoa):
        while get_status(stoa, batch_id)["completed"] == 0:
            time.sleep(0.05)
        rabbitmq.end()
        later = submit_batch(stoa, *["speak"] * 20)
        rabbitmq.launch()
        assert wait_until_ended(stoa, batch_id, seconds=300)["completed"] == 200
        assert wait_until_ended(stoa, later, seconds=300)["completed"] == 20
        assert wait_until_ended(stoa, submit_batch(stoa, "speak"))["completed"] == 1
    assert "Traceback" not in stoa.log.read_text()
