"""The local Redis server as a child process."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import redis

from shared.serving.processes.broker import demo_redis_url
from shared.serving.processes.local_redis import LocalRedis, RedisUnavailable, find_server, redis_url, socket_path

CHECKOUT = Path(__file__).resolve().parents[4]

pytestmark = pytest.mark.skipif(find_server() is None, reason="no Redis-protocol server for this system")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "redis"


def test_it_answers_on_a_private_socket_and_leaves_nothing_behind(folder: Path):
    with LocalRedis(folder) as server, redis.Redis.from_url(server.url) as client:
        client.set("a", "1")
        assert client.get("a") == b"1"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert socket_path(folder).stat().st_mode & 0o777 == 0o600
        process = psutil.Process(client.info("server")["process_id"])
        assert process.net_connections("tcp") == []
    assert not process.is_running()
    assert list(folder.iterdir()) == []


def test_with_full_memory_it_refuses_writes(folder: Path):
    with LocalRedis(folder) as server, redis.Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert int(client.config_get("maxmemory")["maxmemory"]) > 0
        assert client.config_get("save") == {"save": ""}


def test_a_server_on_the_path_is_preferred_to_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    in_wheel = find_server()
    on_path = tmp_path / "valkey-server"
    on_path.write_text("#!/bin/sh\n")
    on_path.chmod(0o700)
    assert in_wheel != on_path
    assert find_server() == on_path


def test_a_server_that_does_not_start_is_an_error(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken = tmp_path / "redis-server"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(RedisUnavailable, match="did not start"):
        LocalRedis(folder).start()


def test_a_folder_too_deep_for_a_socket_is_an_error_with_the_reason(tmp_path: Path):
    with pytest.raises(RedisUnavailable, match="shorter path"):
        LocalRedis(tmp_path / ("x" * 100)).start()


def test_it_ends_when_its_parent_is_killed(folder: Path):
    script = (
        "import pathlib, sys, time; from shared.serving.processes.local_redis import LocalRedis; "
        f"LocalRedis(pathlib.Path({str(folder)!r})).start(); print('up', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=CHECKOUT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == b"up\n"
        (child,) = psutil.Process(parent.pid).children()
        os.kill(parent.pid, signal.SIGKILL)
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_the_program_becomes_the_server(folder: Path):
    with subprocess.Popen(
        [sys.executable, "-m", "shared.serving.processes.local_redis", str(folder)],
        cwd=CHECKOUT,
        stdout=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + 20
        while not socket_path(folder).exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with redis.Redis.from_url(redis_url(folder)) as client:
            assert client.info("server")["process_id"] == process.pid
        process.terminate()


def test_a_demo_is_found_while_its_server_runs(tmp_path: Path):
    with LocalRedis(tmp_path / "redis") as server:
        assert demo_redis_url(tmp_path) == server.url
        path = socket_path(tmp_path / "redis")
        path.rename(tmp_path / "left")
    (tmp_path / "left").rename(path)  # of a server that was killed
    assert demo_redis_url(tmp_path) == ""


@pytest.mark.timeout(30)
def test_nothing_waits_for_a_demo_that_does_not_answer(tmp_path: Path):
    with contextlib.ExitStack() as sockets:
        server = sockets.enter_context(socket.socket(socket.AF_UNIX))
        (tmp_path / "redis").mkdir()
        server.bind(str(socket_path(tmp_path / "redis")))
        server.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                client = sockets.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(server.getsockname())
        assert demo_redis_url(tmp_path) == ""


@pytest.mark.parametrize(
    ("module", "extra", "is_found"),
    [
        ("base", {}, True),
        ("base", {"REDIS_URL": ""}, False),  # "none", as in stoa.env.example
        ("production", {}, False),
    ],
)
def test_commands_of_development_use_a_demos_server_unless_a_variable_says_otherwise(
    tmp_path: Path, module: str, extra: dict[str, str], is_found: bool
):
    environment = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    environment |= {"STOA_HOME": str(tmp_path), "DJANGO_SETTINGS_MODULE": f"commerce.config.settings.{module}"} | extra
    (tmp_path / "var").mkdir(mode=0o700)
    (tmp_path / "run").mkdir()
    (tmp_path / "var" / "run").symlink_to(tmp_path / "run")  # as in a demo in a deep folder
    with LocalRedis(tmp_path / "run" / "redis") as server:
        done = subprocess.run(
            [sys.executable, "-c", "from shared.settings import REDIS_URL; print(REDIS_URL)"],
            cwd=CHECKOUT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout.strip() == (server.url if is_found else ""), done.stderr
