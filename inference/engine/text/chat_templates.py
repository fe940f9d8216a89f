"""Chat templates: programs in a model's files. They run in a sandbox, and once at load in a child with limits."""

import ctypes
import gc
import os
import re
import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jinja2
from transformers.utils.chat_template_utils import render_jinja_template

from inference.engine.errors import InvalidRequest, ModelLoadFailed

MAX_PROBE_CPU_SECONDS = 2
MAX_PROBE_SECONDS = 60  # on a busy machine
MAX_PROBE_MEMORY_BYTES = 256 * 1024 * 1024
MAX_PROBE_LENGTH = 1024 * 1024  # characters, rendered from a few words
MAX_RENDER_SECONDS = 10.0  # of a conversation, which usually takes milliseconds
MAX_RENDERED_LENGTH = 64 * 1024 * 1024  # characters
# Exit statuses of the probe.
PROBE_PASSED, PROBE_TOO_LARGE, PROBE_UNSAFE = 0, 3, 4

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
THINKING_OPTIONS = ("enable_thinking", "thinking")
# Variables of every rendering, which are no options.
RESERVED_OPTIONS = frozenset(
    {"messages", "tools", "documents", "chat_template", "add_generation_prompt", "continue_final_message"}
    | {"return_assistant_tokens_mask", "tokenize"}
)
Render = Callable[[list[dict[str, Any]], list[dict[str, Any]] | None], str]


def render(
    template: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, variables: dict[str, Any]
) -> str:
    """Return a conversation as the model's prompt, up to the assistant's turn. variables: further ones.

    Raise whatever the template raises: see `template_errors`.
    """
    options: dict[str, Any] = {**variables, "tools": tools, "chat_template": template, "add_generation_prompt": True}
    with _time_limit(MAX_RENDER_SECONDS):
        rendered: Any = render_jinja_template([messages], **options)
    text: str = rendered[0][0]
    if len(text) > MAX_RENDERED_LENGTH:
        raise InvalidRequest(
            f"The conversation is {len(text)} characters long in the model's chat template, and at most "
            f"{MAX_RENDERED_LENGTH} are allowed. Shorten it.",
            parameter="messages",
        )
    return text


class TemplateTimeout(Exception):
    """A template that exceeded its time limit."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise InvalidRequest in this thread once the time has passed, even inside a template's loop.

    A template is a program, and the check at load cannot try every conversation.
    """
    thread, lock = ctypes.c_ulong(threading.get_ident()), threading.Lock()
    finished = False

    def stop() -> None:
        with lock:
            if not finished:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TemplateTimeout))

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        try:
            yield
        finally:
            with lock:
                finished = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, None)  # drops one that was not raised yet
            timer.cancel()
    except TemplateTimeout:
        raise InvalidRequest(
            f"The model's chat template took longer than {seconds:g} s. Shorten the conversation."
        ) from None


def template_options(template: str, options: Mapping[str, Any], thinking: bool | None) -> dict[str, Any]:
    """Return the options for a template. Raise InvalidRequest for one that the template does not have.

    thinking: the value of the options that switch reasoning on and off, if the template has one.
    """
    for name in options:
        if name in RESERVED_OPTIONS or not re.search(rf"\b{re.escape(name)}\b", template):
            raise InvalidRequest(
                f"`{name}` is not an option of this model's chat template. Leave it out.", parameter=name
            )
    switches = {name: thinking for name in THINKING_OPTIONS if thinking is not None}
    return switches | dict(options)


@contextmanager
def template_errors() -> Iterator[None]:
    """Raise errors of encoding and of templates as InvalidRequest. Templates may raise any plain error."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidRequest("The text holds a lone surrogate. Send valid Unicode.") from error
    except RecursionError as error:
        raise InvalidRequest("The model's chat template rejected this request: it is nested too deeply.") from error
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InvalidRequest(f"The model's chat template rejected this request: {error}") from error


def check_limits(render: Render) -> None:
    """Render short conversations in a child process. Raise ModelLoadFailed if that exceeds the limits.

    A template may reject some of the conversations.
    """
    child = os.fork()
    if child == 0:
        status = PROBE_TOO_LARGE
        gc.disable()  # garbage may hold threads that only the parent has, such as a decoder's
        try:
            _limit_process()
            status = _probe(render)
        finally:
            os._exit(status)  # runs no handler of the parent and flushes nothing
    status = _wait(child)
    if status == PROBE_UNSAFE:
        raise ModelLoadFailed("The chat template uses unsafe operations. Repair or remove it.")
    if status != PROBE_PASSED:
        limits = f"{MAX_PROBE_CPU_SECONDS} s, {MAX_PROBE_MEMORY_BYTES >> 20} MiB, {MAX_PROBE_LENGTH} characters"
        raise ModelLoadFailed(f"The chat template exceeds its limits on a few words ({limits}). Repair or remove it.")


def _limit_process() -> None:
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    memory = used + MAX_PROBE_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # A process's CPU time starts at the fork.
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_PROBE_CPU_SECONDS, MAX_PROBE_CPU_SECONDS))


def _probe(render: Render) -> int:
    for messages, tools in PROBES:
        try:
            if len(render(messages, tools)) > MAX_PROBE_LENGTH:
                return PROBE_TOO_LARGE
        except (MemoryError, OverflowError):
            return PROBE_TOO_LARGE
        except jinja2.exceptions.SecurityError:
            return PROBE_UNSAFE
        except Exception:  # noqa: S112 (a template that raises has ended within its limits)
            continue
    return PROBE_PASSED


def _wait(child: int) -> int:
    """Return the child's exit status, or the negative number of the signal that ended it."""
    deadline = time.monotonic() + MAX_PROBE_SECONDS
    pause = 0.001
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, 9)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
