"""`ps`: what the model host runs."""

import asyncio
from typing import Any

from inference.cli.failures import fail
from inference.cli.listings import AsJson, print_json, print_list, size
from inference.engine import EngineError, EngineStats, ModelState, ModelStatus
from inference.registry.processes import engine, host


def ps(as_json: AsJson = False) -> None:
    """List what the model host runs, loads or failed to run, with what each model costs and does."""
    try:
        running = asyncio.run(_running())
    except EngineError as error:
        fail(error)
    if as_json:
        print_json(running)
        return
    columns = ("id", "state", "pid", "memory", "context", "running", "waiting", "why not")
    print_list(columns, map(_row, running))


async def _running() -> list[dict[str, Any]]:
    statuses = await host().models()
    try:
        return [_told(status, await _stats(status)) for status in sorted(statuses, key=lambda status: status.model_id)]
    finally:
        await engine().close()


async def _stats(status: ModelStatus) -> EngineStats | None:
    """None where it does not run, has no queue, or has just ended."""
    if status.state is not ModelState.LOADED:
        return None
    try:
        return await engine().stats(status.model_id)
    except EngineError:
        return None


def _told(status: ModelStatus, stats: EngineStats | None) -> dict[str, Any]:
    report = status.report
    return {
        "id": status.model_id,
        "state": status.state.value,
        "pid": status.pid,
        "memory_usage_bytes": report.memory_usage_bytes if report else None,
        "resident_bytes": status.resident_bytes,
        "context_size": report.context_size if report else None,
        "running": stats.running if stats else 0,
        "waiting": stats.waiting if stats else 0,
        "slots": stats.slots if stats else None,
        "error": status.error,
    }


def _row(told: dict[str, Any]) -> tuple[object, ...]:
    bytes_ = told["resident_bytes"] or told["memory_usage_bytes"]
    shown = (told["id"], told["state"], told["pid"] or "", size(bytes_) if bytes_ else "", told["context_size"] or "")
    return (*shown, told["running"], told["waiting"], told["error"] or "")
