"""The command `ps`."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec

from inference.cli.errors import exit_with_error
from inference.cli.output import JsonOption, format_bytes, print_json, print_table
from inference.cli.server import require_local
from inference.engine import EngineError, EngineStats, ModelState, ModelStatus
from inference.local.clients import engine, host


def ps(as_json: JsonOption = False) -> None:
    """List the models of the model host, with their memory and their running and waiting requests."""
    require_local("ps")
    try:
        models = asyncio.run(_list_models())
    except EngineError as error:
        exit_with_error(error)
    if as_json:
        print_json(models)
        return
    columns = ("id", "state", "pid", "memory", "context", "running", "waiting", "error")
    print_table(columns, (row for model in models for row in _rows(model)))


async def _list_models() -> list[dict[str, Any]]:
    statuses = await host().models()
    try:
        return [
            _model_fields(status, await _read_stats(status))
            for status in sorted(statuses, key=lambda status: status.model_id)
        ]
    finally:
        await engine().close()


async def _read_stats(status: ModelStatus) -> EngineStats | None:
    """Return the engine's figures, or None for a model that is not loaded, has no queue or has just ended."""
    if status.state is not ModelState.LOADED:
        return None
    try:
        return await engine().stats(status.model_id)
    except EngineError:
        return None


def _model_fields(status: ModelStatus, stats: EngineStats | None) -> dict[str, Any]:
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
        "replicas": [msgspec.to_builtins(replica) for replica in status.replicas],
    }


def _rows(model: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield a row for a model, and one for each of its replicas if it has several."""
    yield _row(model)
    for replica in model["replicas"]:
        pid, memory = replica["pid"] or "", replica["resident_bytes"]
        size = format_bytes(memory) if memory else ""
        yield (f"{model['id']}/{replica['number']}", replica["state"], pid, size, "", "", "", replica["error"] or "")


def _row(model: dict[str, Any]) -> tuple[object, ...]:
    memory = model["resident_bytes"] or model["memory_usage_bytes"]
    return (
        model["id"],
        model["state"],
        model["pid"] or "",
        format_bytes(memory) if memory else "",
        model["context_size"] or "",
        model["running"],
        model["waiting"],
        model["error"] or "",
    )
