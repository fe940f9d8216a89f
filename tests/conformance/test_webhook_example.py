"""The webhook example of the manual, as pasted: its curl command, its receiver, and a batch that it hears of."""

import json
import os
import re
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from tests.running_stoa import CHECKOUT, RunningStoa

PAGE = (CHECKOUT / "docs" / "model-client" / "webhooks.md").read_text()
PORT = 9000


def block(language: str, containing: str) -> str:
    """Return the only code block of the page in this language that contains a text."""
    [code] = [one for one in re.findall(rf"```{language}\n(.*?)```", PAGE, re.S) if containing in one]
    return str(code)


def read_line(receiver: "subprocess.Popen[str]", seconds: float) -> str:
    assert receiver.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(receiver.stdout, selectors.EVENT_READ)
        assert selector.select(seconds), "the receiver heard nothing"
        return receiver.stdout.readline()


def is_listening() -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", PORT)) == 0


def wait_until_listening(receiver: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 30
    while not is_listening():
        assert receiver.poll() is None, "the receiver ended"
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_manuals_receiver_hears_of_a_batch(stoa: RunningStoa, tmp_path: Path):
    if is_listening():
        pytest.skip(f"Another program listens on port {PORT}.")
    command = block("sh", "/webhooks ").replace("http://127.0.0.1:8001", stoa.inference_url)
    environment = os.environ | {"API_KEY": stoa.api_key}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60)
    webhook = json.loads(done.stdout)
    assert webhook["url"] == f"http://127.0.0.1:{PORT}/", done.stdout
    script = tmp_path / "receiver.py"
    script.write_text(block("python", "Receiver"))
    receiver = subprocess.Popen(
        [sys.executable, "-u", str(script)],
        env=os.environ | {"WEBHOOK_SECRET": webhook["secret"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        wait_until_listening(receiver)
        body = {"model": "stoa-describer", "requests": [{"id": "lamp", "prompt": "A lamp", "max_tokens": 2}]}
        batch = httpx2.post(f"{stoa.inference_url}/batch", json=body, headers=stoa.headers(), timeout=60)
        assert batch.status_code in (200, 201, 202), batch.text
        assert read_line(receiver, 60).split() == [batch.json()["batch_id"], "completed"]
    finally:
        receiver.kill()
        receiver.communicate()
        httpx2.delete(f"{stoa.inference_url}/webhooks/{webhook['id']}", headers=stoa.headers(), timeout=60)
