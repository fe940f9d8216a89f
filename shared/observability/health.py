"""Liveness and readiness. Alive: the process answers. Ready: it is not draining and all that it needs answers."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog
from django.db import connection
from django.http import HttpRequest, JsonResponse

CHECK_TIMEOUT_S = 3.0
Check = Callable[[], Awaitable[None]]

logger = structlog.get_logger(__name__)
_draining = threading.Event()


def start_draining() -> None:
    """From now on this process is not ready: it finishes what it has, and takes nothing new."""
    _draining.set()


def is_draining() -> bool:
    return _draining.is_set()


async def check_database() -> None:
    """Raises what the database driver raises when the database does not answer."""
    await asyncio.to_thread(_select_one)


def _select_one() -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        connection.close()  # this thread's own


async def livez(request: HttpRequest) -> JsonResponse:
    """GET /livez: 200 as long as the process answers at all, also while it drains."""
    return JsonResponse({"status": "alive"})


def readyz(**checks: Check) -> Callable[[HttpRequest], Coroutine[Any, Any, JsonResponse]]:
    """The view for GET /readyz: 200 when every check returns within its time, else 503, with each check's outcome.

    A check is an async callable that raises when what it looks at is not ready. It runs once at a time, however many
    ask: one that hangs may keep a thread, and there are few of them.
    """
    running: dict[str, asyncio.Future[None]] = {}

    async def view(request: HttpRequest) -> JsonResponse:
        asked = (_passes(name, _started(name, check, running)) for name, check in checks.items())
        outcomes = dict(zip(checks, await asyncio.gather(*asked), strict=True))
        ready = all(outcomes.values()) and not is_draining()
        body = {
            "status": "ready" if ready else "not_ready",
            "checks": {name: "ok" if passed else "failed" for name, passed in outcomes.items()},
        }
        return JsonResponse(body, status=200 if ready else 503, headers={} if ready else {"Retry-After": "5"})

    return view


def _started(name: str, check: Check, running: dict[str, asyncio.Future[None]]) -> asyncio.Future[None]:
    """The one that runs, or a new one."""
    task = running.get(name)
    if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
        task = running[name] = asyncio.ensure_future(check())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # looked at, so not reported as lost
    return task


async def _passes(name: str, task: asyncio.Future[None]) -> bool:
    """Whether it passes in time. One that hangs is left behind: waiting for it would make this answer hang."""
    done, _ = await asyncio.wait({task}, timeout=CHECK_TIMEOUT_S)
    if not done:
        logger.warning("readiness_check_late", check=name)
        return False
    if error := task.exception():
        logger.warning("readiness_check_failed", check=name, error=type(error).__name__)
    return error is None
