"""Chat templates: programs that come with a model. They run in a sandbox, and at load, once in a child with limits."""

import ctypes
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jinja2
from transformers.utils.chat_template_utils import render_jinja_template

from inference.engine.errors import InvalidRequest, ModelLoadFailed

CPU_SECONDS = 2
WALL_SECONDS = 60  # for a machine that is busy with other things
MEMORY = 256 * 1024 * 1024
REQUEST_SECONDS = 10.0  # for the whole of a conversation; it takes milliseconds
MAX_PROBE = 1024 * 1024  # characters that a few words may become
MAX_RENDERED = 64 * 1024 * 1024
DONE, TOO_LARGE, REACHES_OUT = 0, 3, 4

_CALL = {"id": "a12345678", "type": "function", "function": {"name": "look", "arguments": {"at": "lamp"}}}
_USER, _ASSISTANT = {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello to you"}
_TOOL = {"type": "function", "function": {"name": "look", "description": "Looks", "parameters": {"type": "object"}}}
PROBES: list[tuple[list[dict[str, Any]], list[dict[str, Any]] | None]] = [
    ([_USER], None),
    ([_USER, _ASSISTANT, _USER], None),
    ([{"role": "system", "content": "Be kind"}, _USER], None),
    ([_USER], [_TOOL]),
    (
        [_USER, _ASSISTANT | {"tool_calls": [_CALL]}, {"role": "tool", "content": "Lit", "tool_call_id": _CALL["id"]}],
        [_TOOL],
    ),
]
Render = Callable[[list[dict[str, Any]], list[dict[str, Any]] | None], str]


def render(
    template: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, tokens: dict[str, Any]
) -> str:
    """A conversation as the model is to read it, up to where the assistant speaks.

    Raises what the template raises: see `refusals`.
    """
    options: dict[str, Any] = {"tools": tools, "chat_template": template, "add_generation_prompt": True, **tokens}
    with _time_limit(REQUEST_SECONDS):
        rendered: Any = render_jinja_template([messages], **options)
    text: str = rendered[0][0]
    if len(text) > MAX_RENDERED:
        raise InvalidRequest(f"The conversation becomes {len(text)} characters long. Shorten it.", parameter="messages")
    return text


class TooSlow(Exception):
    """The template ran for too long."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raises InvalidRequest in this thread, wherever its Python is, once the time has passed.

    A template is a program: what it does with a conversation of a certain kind cannot be known when it is loaded.
    """
    thread, lock = ctypes.c_ulong(threading.get_ident()), threading.Lock()
    over = False

    def stop() -> None:
        with lock:
            if not over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TooSlow))

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        try:
            yield
        finally:
            with lock:
                over = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, None)  # one that has not been raised yet
            timer.cancel()
    except TooSlow:
        raise InvalidRequest(
            f"The model's chat template took longer than {seconds:g} s. Shorten the conversation."
        ) from None


@contextmanager
def refusals() -> Iterator[None]:
    """Says in our words why text cannot be encoded. Templates come with the model and may raise anything plain."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidRequest("The text holds a lone surrogate. Send valid Unicode.") from error
    except RecursionError as error:
        raise InvalidRequest("The model's chat template refuses this: it is nested too deeply.") from error
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InvalidRequest(f"The model's chat template refuses this: {error}") from error


def check_limits(render: Render) -> None:
    """Runs a template on a few words in a child process. Raises ModelLoadFailed when that takes too much.

    A template that refuses some of the words is a good one.
    """
    child = os.fork()
    if child == 0:
        status = TOO_LARGE
        try:
            _limit()
            status = _probe(render)
        finally:
            os._exit(status)  # nothing of the parent's runs here: no handler, no flush
    status = _wait(child)
    if status == REACHES_OUT:
        raise ModelLoadFailed("The chat template reaches for what no template needs. Repair or remove it.")
    if status != DONE:
        limits = f"{CPU_SECONDS} s, {MEMORY >> 20} MiB, {MAX_PROBE} characters"
        raise ModelLoadFailed(f"The chat template takes too much for a few words ({limits}). Repair or remove it.")


def _limit() -> None:
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    # The clock of the process begins at the fork.
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def _probe(render: Render) -> int:
    for messages, tools in PROBES:
        try:
            if len(render(messages, tools)) > MAX_PROBE:
                return TOO_LARGE
        except (MemoryError, OverflowError):
            return TOO_LARGE
        except jinja2.exceptions.SecurityError:
            return REACHES_OUT
        except Exception:  # noqa: S112 (whatever the template raises, it has ended)
            continue
    return DONE


def _wait(child: int) -> int:
    """The child's exit status, or that of the signal that ended it."""
    deadline = time.monotonic() + WALL_SECONDS
    pause = 0.001
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, 9)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
