"""Log lines of model hosts and model processes."""

import io
import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from inference.engine.host.logs import JsonLine

CANARY = "canary"


def logged(error: Exception, message: str = "it_failed", *arguments: object) -> dict[str, Any]:
    """The one line that is written of it."""
    written = io.StringIO()
    logger = logging.Logger("engine.test")
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLine())
    logger.addHandler(handler)
    try:
        raise error
    except Exception:
        logger.exception(message, *arguments)
    [line] = written.getvalue().splitlines()
    return dict(json.loads(line))


def test_a_line_is_json_whatever_is_in_it() -> None:
    line = logged(OSError("no"), "failed for %s", "a\r\n\x1b[31m\u2028b")
    assert (line["event"], line["level"], line["logger"]) == (
        "failed for a\r\n\x1b[31m\u2028b",
        "error",
        "engine.test",
    )
    assert line["timestamp"].endswith("+00:00")


@pytest.mark.parametrize("error", [ValueError(CANARY), KeyError(CANARY), TypeError(CANARY), Exception(CANARY)])
def test_o3_what_an_exception_quotes_is_not_told(error: Exception) -> None:
    line = logged(error)
    assert CANARY not in json.dumps(line)
    assert line["exception"].splitlines()[-1] == type(error).__name__


LOGGING = """
import asyncio, gc, logging, threading
from inference.engine.host.logs import start_logging

def fail(said):
    raise ValueError(said)

async def fail_late(said):
    fail(said)

async def forget():
    task = asyncio.ensure_future(fail_late("can" + "ary"))
    await asyncio.sleep(0)
    del task
    gc.collect()

start_logging(logging.WARNING)
asyncio.run(forget())
thread = threading.Thread(target=fail, args=["can" + "ary"])
thread.start()
thread.join()
"""


def test_o3_what_coroutines_and_threads_end_with_is_a_line_without_its_words() -> None:
    done = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True, text=True, timeout=100, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["Task exception was never retrieved", "engine.thread_failed"]
    assert [line["exception"].splitlines()[-1] for line in lines] == ["ValueError"] * 2
    assert CANARY not in done.stderr


def test_what_torch_says_of_the_machine_is_told_with_what_led_to_it() -> None:
    error = RuntimeError("no memory left")
    error.__cause__ = ValueError(CANARY)
    line = logged(error)
    assert line["exception"].splitlines()[-1] == "RuntimeError: no memory left"
    assert line["exception"].startswith("ValueError\n")
    assert CANARY not in json.dumps(line)
