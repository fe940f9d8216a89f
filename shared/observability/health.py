"""Liveness and readiness. A process is alive if it answers, and ready if it is not draining and all its checks pass."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog
from django.http import HttpRequest, JsonResponse

CHECK_TIMEOUT_S = 3.0
Check = Callable[[], Awaitable[None]]

logger = structlog.get_logger(__name__)
_draining = threading.Event()


def start_draining() -> None:
    """Make this process unready: it completes its running requests and accepts no new ones."""
    _draining.set()


def is_draining() -> bool:
    return _draining.is_set()


async def livez(request: HttpRequest) -> JsonResponse:
    """Answer GET /livez: 200 as long as the process answers at all, also while it drains."""
    return JsonResponse({"status": "alive"})


def readyz(**checks: Check) -> Callable[[HttpRequest], Coroutine[Any, Any, JsonResponse]]:
    """Return the view of GET /readyz: 200 if all checks pass in time, else 503, with the outcome of each check.

    A check is an async callable that raises if its resource is not ready. Concurrent requests share one run of a check,
    since one that hangs may hold a thread, and there are few of them.
    """
    running: dict[str, asyncio.Future[None]] = {}

    async def view(request: HttpRequest) -> JsonResponse:
        passing = (_passes(name, _started(name, check, running)) for name, check in checks.items())
        outcomes = dict(zip(checks, await asyncio.gather(*passing), strict=True))
        ready = all(outcomes.values()) and not is_draining()
        body = {
            "status": "ready" if ready else "not_ready",
            "checks": {name: "ok" if passed else "failed" for name, passed in outcomes.items()},
        }
        return JsonResponse(body, status=200 if ready else 503, headers={} if ready else {"Retry-After": "5"})

    return view


def _started(name: str, check: Check, running: dict[str, asyncio.Future[None]]) -> asyncio.Future[None]:
    """Return the running task of the check, or start one."""
    task = running.get(name)
    if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
        task = running[name] = asyncio.ensure_future(check())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # or asyncio logs the exception
    return task


async def _passes(name: str, task: asyncio.Future[None]) -> bool:
    """Return whether the check passes in time. A check that hangs is left behind, or this response would hang too."""
    done, _ = await asyncio.wait({task}, timeout=CHECK_TIMEOUT_S)
    if not done:
        logger.warning("readiness_check_late", check=name)
        return False
    if error := task.exception():
        logger.warning("readiness_check_failed", check=name, error=type(error).__name__)
    return error is None
