"""Rows B1, B3 and D6 with RabbitMQ as the broker, where it is installed."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.inference.batches.workers import (
    all_results,
    ended,
    running_worker,
    served_with_broker,
    start_worker,
    status,
    submit,
)
from tests.inference.served import ServedStoa
from tests.rabbitmq import HOW_TO_GET_IT, LocalRabbitMQ, find_server

pytestmark = [pytest.mark.timeout(600), pytest.mark.skipif(find_server() is None, reason=HOW_TO_GET_IT)]


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[LocalRabbitMQ]:
    server = find_server()
    assert server
    broker = LocalRabbitMQ(server)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def stoa(rabbitmq: LocalRabbitMQ) -> Iterator[ServedStoa]:
    with served_with_broker({"STOA_BROKER_URL": rabbitmq.url}) as served:
        yield served


def test_b1_a_batch_whose_workers_are_killed_is_done_all_the_same(stoa: ServedStoa):
    batch_id = submit(stoa, *["speak"] * 300)
    for turn in range(3):
        worker = start_worker(stoa.environment, stoa.log.with_name("worker.log"))
        while status(stoa, batch_id)["completed"] <= turn * 40:
            time.sleep(0.05)
        os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.wait(30)
    with running_worker(stoa):
        assert ended(stoa, batch_id, seconds=300)["completed"] == 300
    assert "Connected to amqp://" in stoa.log.with_name("worker.log").read_text()
    assert [result["id"] for result in all_results(stoa, batch_id)] == [f"r{place}" for place in range(300)]


def test_b3_and_d6_a_broker_that_ends_in_mid_batch_costs_no_batch_and_no_error(
    stoa: ServedStoa, rabbitmq: LocalRabbitMQ
):
    batch_id = submit(stoa, *["speak"] * 200)
    with running_worker(stoa):
        while status(stoa, batch_id)["completed"] == 0:
            time.sleep(0.05)
        rabbitmq.end()
        later = submit(stoa, *["speak"] * 20)
        rabbitmq.launch()
        assert ended(stoa, batch_id, seconds=300)["completed"] == 200
        assert ended(stoa, later, seconds=300)["completed"] == 20
        assert ended(stoa, submit(stoa, "speak"))["completed"] == 1
    assert "Traceback" not in stoa.log.read_text()
