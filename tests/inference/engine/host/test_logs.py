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
    """Return the log line of an error."""
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


def test_a_log_line_is_json_with_any_message() -> None:
    line = logged(OSError("no"), "failed for %s", "a\r\n\x1b[31m\u2028b")
    assert (line["event"], line["level"], line["logger"]) == (
        "failed for a\r\n\x1b[31m\u2028b",
        "error",
        "engine.test",
    )
    assert line["timestamp"].endswith("+00:00")


@pytest.mark.parametrize("error", [ValueError(CANARY), KeyError(CANARY), TypeError(CANARY), Exception(CANARY)])
def test_o3_exception_messages_are_not_logged(error: Exception) -> None:
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


def test_o3_exceptions_of_coroutines_and_threads_are_logged_without_messages() -> None:
    done = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True, text=True, timeout=100, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["Task exception was never retrieved", "engine.thread_failed"]
    assert [line["exception"].splitlines()[-1] for line in lines] == ["ValueError"] * 2
    assert CANARY not in done.stderr


def test_machine_errors_are_logged_with_message_and_cause() -> None:
    error = RuntimeError("no memory left")
    error.__cause__ = ValueError(CANARY)
    line = logged(error)
    assert line["exception"].splitlines()[-1] == "RuntimeError: no memory left"
    assert line["exception"].startswith("ValueError\n")
    assert CANARY not in json.dumps(line)
