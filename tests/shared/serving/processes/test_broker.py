"""Celery's broker settings by environment variables."""

import pytest

from shared.serving.processes.broker import broker_url, lowest_priority_routes, queue_type, transport_options


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
    assert rabbitmq == {"confirm_publish": True, "connect_timeout": 2, "read_timeout": 5, "write_timeout": 5}


def test_only_redis_gets_routes_for_the_lowest_priority():
    assert lowest_priority_routes("redis://cache/1", "run") == {"run": {"priority": 9}}
    assert lowest_priority_routes("amqp://rabbit/stoa", "run") == {}
