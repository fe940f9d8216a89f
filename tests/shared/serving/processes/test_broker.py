"""Celery's broker settings by environment variables."""

import contextlib
import socket
import threading

import pytest
from celery import Celery

from shared.serving.processes.broker import broker_url, lowest_priority_routes, queue_type, transport_options
from shared.serving.processes.celery_app import send_task


@pytest.mark.parametrize(
    ("redis_url", "own", "url"),
    [
        ("", "", ""),
        ("redis://cache/1", "", "redis://cache/1"),
        ("unix:///run/stoa/redis.sock?db=2", "", "redis+socket:///run/stoa/redis.sock?virtual_host=2"),
        ("redis://cache/1", "amqp://stoa:x@rabbit/stoa", "amqp://stoa:x@rabbit/stoa"),
        ("", "unix:///run/stoa/redis.sock", "redis+socket:///run/stoa/redis.sock?virtual_host=0"),
    ],
)
def test_the_broker_is_redis_unless_another_is_set(redis_url: str, own: str, url: str):
    assert broker_url(redis_url, own) == url


def test_options_of_one_broker_are_not_set_for_the_other():
    redis = transport_options("redis://cache/1", prefix="stoa:", max_seconds=5)
    rabbitmq = transport_options("amqp://rabbit/stoa", prefix="stoa:", max_seconds=5)

    assert (queue_type("redis://cache/1"), queue_type("amqps://rabbit/stoa")) == ("classic", "quorum")
    assert (redis["global_keyprefix"], redis["socket_timeout"]) == ("stoa:", 5)
    timeouts = {"connect_timeout": 2, "read_timeout": 5, "write_timeout": 5}
    assert rabbitmq == {"max_retries": 0, "confirm_publish": True} | timeouts


def test_the_sender_of_a_task_does_not_wait_for_a_broker_that_ends_its_connections():
    tries = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            with contextlib.suppress(OSError):  # the test has ended
                while True:
                    server.accept()[0].close()
                    tries.append(1)

        threading.Thread(target=refuse, daemon=True).start()
        url = f"redis://127.0.0.1:{server.getsockname()[1]}/0"
        app = Celery("an_app", broker=url, set_as_current=False)
        app.conf.broker_transport_options = transport_options(url, prefix="stoa:", max_seconds=5)
        assert send_task(app, "tick") is False
    assert len(tries) == 1


def test_only_redis_gets_routes_for_the_lowest_priority():
    assert lowest_priority_routes("redis://cache/1", "run") == {"run": {"priority": 9}}
    assert lowest_priority_routes("amqp://rabbit/stoa", "run") == {}
