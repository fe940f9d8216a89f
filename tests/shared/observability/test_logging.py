"""Log lines as they leave the process."""

import asyncio
import gc
import io
import json
import logging
import re
import threading
import warnings
from collections.abc import Iterator

import pytest
import structlog
from celery import Celery
from django.core.exceptions import ImproperlyConfigured

from shared.observability.logging import configure_logging, logging_config
from shared.observability.request_id import bind_request_id

CANARY = "canary"
HOSTILE = 'a\r\n{"event": "forged"}\x1b[31m\x85b\u2028c\x00'


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """Return the root logger, and restore its configuration afterwards."""
    logger = logging.getLogger()
    handlers, level, hook = logger.handlers[:], logger.level, threading.excepthook
    yield logger
    logger.handlers[:], logger.level, threading.excepthook = handlers, level, hook


def log_stream(root: logging.Logger, form: str, level: str = "INFO") -> io.StringIO:
    """Configure logging as the settings do, and return the stream that receives the lines."""
    configure_logging(logging_config(level=level, form=form))
    written = io.StringIO()
    (handler,) = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(written)
    return written


def test_a_line_is_one_json_object_with_the_request_id(root: logging.Logger):
    written = log_stream(root, "json")
    with bind_request_id("mine"):
        structlog.get_logger("stoa.test").info("thing_done", count=3)
    line = json.loads(written.getvalue())
    assert (line["event"], line["count"], line["request_id"]) == ("thing_done", 3, "mine")
    assert (line["level"], line["logger"]) == ("info", "stoa.test")
    assert line["timestamp"].endswith("Z")


def test_lines_of_libraries_have_the_same_format(root: logging.Logger):
    written = log_stream(root, "json")
    logging.getLogger("some.package").warning("it said %s", "this")
    line = json.loads(written.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("it said this", "warning", "some.package")


def test_a_python_warning_is_a_line_too(root: logging.Logger):
    logging.captureWarnings(False)  # pytest captures warnings
    written = log_stream(root, "json")
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # tests turn them into errors
        warnings.warn("this is old", FutureWarning, stacklevel=1)
    line = json.loads(written.getvalue())
    assert "FutureWarning: this is old" in line["event"]
    assert (line["level"], line["logger"]) == ("warning", "py.warnings")


@pytest.mark.parametrize("form", ["json", "console"])
def test_o4_hostile_text_stays_within_its_line(root: logging.Logger, form: str):
    written = log_stream(root, form)
    structlog.get_logger("stoa.test").info("thing_done", path=HOSTILE)
    logging.getLogger("some.package").warning("it said %s", HOSTILE)
    lines = written.getvalue().splitlines()
    assert len(lines) == 2
    assert not [line for line in lines if "\x1b[31m\\x85" in line or "\x85" in line or "\u2028" in line]
    if form == "json":
        assert json.loads(lines[0])["path"] == HOSTILE


def test_o3_a_traceback_is_a_field_without_exception_messages(root: logging.Logger):
    written = log_stream(root, "json")
    fail_twice()
    assert "canary" not in written.getvalue()
    line = json.loads(written.getvalue())
    assert line["event"] == "thing_failed"
    assert line["exception"].splitlines()[-1] == "ValueError"
    assert [name for name in line["exception"].split() if name.endswith("Error")] == ["KeyError", "ValueError"]
    assert line["exception"].count('test_logging.py", line') == 2


def test_o3_a_failed_task_is_logged_without_its_exception_message(root: logging.Logger):
    task = Celery("of-a-test", set_as_current=False).task(name="quote", lazy=False)(quote_what_was_said)
    written = log_stream(root, "json")
    assert task.apply().failed()
    assert CANARY not in written.getvalue()
    (line,) = map(json.loads, written.getvalue().splitlines())
    assert re.fullmatch(r"Task quote\[\S+\] raised unexpected", line["event"])
    assert line["exception"].splitlines()[-1] == "ValueError"


def test_o3_an_unawaited_coroutine_is_logged_without_its_exception_message(root: logging.Logger):
    written = log_stream(root, "json")
    asyncio.run(forget_what_fails())
    assert CANARY not in written.getvalue()
    (line,) = map(json.loads, written.getvalue().splitlines())
    assert line["event"] == "Task exception was never retrieved"
    assert line["exception"].splitlines()[-1] == "ValueError"


def test_o3_o4_a_failed_thread_is_a_line_without_its_exception_message(
    root: logging.Logger, capfd: pytest.CaptureFixture[str]
):
    written = log_stream(root, "json")
    thread = threading.Thread(target=quote_what_was_said, name="of-a-test")
    thread.start()
    thread.join()
    assert capfd.readouterr().err == ""
    line = json.loads(written.getvalue())
    assert (line["event"], line["thread"]) == ("thread_failed", "of-a-test")
    assert line["exception"].splitlines()[-1] == "ValueError"
    assert CANARY not in written.getvalue()


def quote_what_was_said() -> None:
    said = CANARY  # built in another line: tracebacks show the code
    raise ValueError(f"{said} is no number")


async def forget_what_fails() -> None:
    async def fail() -> None:
        quote_what_was_said()

    task = asyncio.ensure_future(fail())
    await asyncio.sleep(0)
    del task
    gc.collect()


def test_messages_of_disk_errors_are_logged(root: logging.Logger):
    written = log_stream(root, "json")
    try:
        raise OSError(28, "No space left on device")
    except OSError:
        structlog.get_logger("stoa.test").exception("thing_failed")
    assert json.loads(written.getvalue())["exception"].endswith("OSError: [Errno 28] No space left on device")


def test_at_debug_level_tracebacks_keep_all_messages(root: logging.Logger):
    written = log_stream(root, "json", level="DEBUG")
    fail_twice()
    assert json.loads(written.getvalue())["exception"].endswith("ValueError: the canary is no number")


def fail_twice() -> None:
    try:
        try:
            {}[CANARY]
        except KeyError as error:
            raise ValueError(f"the {CANARY} is no number") from error
    except ValueError:
        structlog.get_logger("stoa.test").exception("thing_failed")


def test_events_below_the_level_are_not_logged(root: logging.Logger):
    written = log_stream(root, "json", level="WARNING")
    structlog.get_logger("stoa.test").info("thing_done")
    assert written.getvalue() == ""


@pytest.mark.parametrize(("level", "form"), [("LOUD", "json"), ("INFO", "xml")])
def test_a_misspelt_setting_is_refused(level: str, form: str):
    with pytest.raises(ImproperlyConfigured, match="choose"):
        logging_config(level=level, form=form)
