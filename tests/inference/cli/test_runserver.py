"""`python manage_inference.py runserver`: the development server."""

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from inference.cli.commands.runserver import NO_REDIS_NOTICE
from tests.inference.engine.processes import REPOSITORY
from tests.inference.running_server import RunningServer, run_manage
from tests.inference.websocket_client import receive_message, receive_until, send_messages

START_LIMIT_SECONDS = 100


@pytest.fixture
def development_log(stoa: RunningServer, tmp_path: Path) -> Iterator[Path]:
    """The log of a development server over the database and the model host of `stoa`."""
    environment = {name: value for name, value in stoa.environment.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment.pop("REDIS_URL", None)
    log = tmp_path / "runserver.log"
    command = [sys.executable, "manage_inference.py", "runserver", "127.0.0.1:0"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=output, stderr=subprocess.STDOUT)
    children = []
    try:
        yield log
        children = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.send_signal(signal.SIGINT)
        for child in children:
            child.send_signal(signal.SIGINT)  # as a terminal does
        process.wait(60)
        psutil.wait_procs(children, timeout=60)


def address_in(log: Path) -> str:
    """Return the address that the server says it listens on."""
    deadline = time.monotonic() + START_LIMIT_SECONDS
    while not (found := re.search(r"Listening on TCP address (127\.0\.0\.1:\d+)", log.read_text())):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return found[1]


async def test_runserver_serves_http_and_websockets_with_development_settings(
    stoa: RunningServer, development_log: Path
):
    address = await asyncio.to_thread(address_in, development_log)

    answer = await asyncio.to_thread(httpx2.get, f"http://{address}/models", headers=stoa.headers(), timeout=30)
    assert answer.status_code == 200
    assert {model["id"] for model in answer.json()["models"]} >= {"talker", "embedder"}

    async with connect(f"ws://{address}/ws") as client:
        await send_messages(client, {"type": "auth", "token": stoa.keys["STAFF"]})
        assert (await receive_message(client))["type"] == "auth"
        await send_messages(
            client, {"type": "inference", "id": "a", "model": "talker", "prompt": "speak", "max_tokens": 2}
        )
        messages = await receive_until(client, "complete", "error")
        assert [message["type"] for message in messages] == ["token", "token", "complete"]

    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://{address}/nothing")
    assert refused.value.response.status_code == 403  # daphne has no other status for a refused handshake

    output = await asyncio.to_thread(development_log.read_text)
    assert "inference.config.settings.dev" in output
    assert NO_REDIS_NOTICE in output
    assert "Traceback" not in output


def test_runserver_without_tables_says_what_to_run(stoa: RunningServer, tmp_path: Path):
    environment = stoa.environment | {"DATABASE_URL": f"sqlite:///{tmp_path / 'empty.sqlite3'}"}
    del environment["DJANGO_SETTINGS_MODULE"]
    ended = run_manage(environment, "runserver", "127.0.0.1:0")
    assert ended.returncode == 1
    assert "has no tables. Run `stoa migrate`" in ended.stderr


def test_runserver_refuses_settings_other_than_those_of_development(stoa: RunningServer):
    environment = stoa.environment | {"DJANGO_SETTINGS_MODULE": "inference.config.settings.base"}
    ended = run_manage(environment, "runserver", "127.0.0.1:0")
    assert ended.returncode == 2
    assert "runserver does not run with inference.config.settings.base" in ended.stderr


def test_the_asgi_application_does_not_import_daphne(stoa: RunningServer):
    code = "import sys; import inference.config.asgi; sys.exit('daphne' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=stoa.environment, check=True, timeout=100)


def test_runserver_without_daphne_says_what_to_install(stoa: RunningServer):
    code = "import sys; sys.modules['daphne'] = None; from inference.cli import main; main()"
    environment = {name: value for name, value in stoa.environment.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", code, "runserver"], cwd=REPOSITORY, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "stoa: runserver needs daphne: pip install -r requirements/inference.txt\n"
