"""A model, loaded for the time of a command: in the host that runs, or in one of its own."""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from django.conf import settings

from inference.engine import HostUnavailable, LoadOptions, ModelState
from inference.registry.listing import is_loaded
from inference.registry.processes import end_host, host, start_host
from inference.registry.services import find_card, load_here, unload_here

HOST_STARTS_WITHIN_S = 30.0


@contextlib.asynccontextmanager
async def loaded(model: str) -> AsyncIterator[None]:
    """The model answers for the time of the block: it did already, or it is loaded for it. Raises as `load_model`."""
    if model in settings.REMOTE_MODELS:
        yield
        return
    if not await is_loaded(model):
        await find_card(model)
    async with _some_host():
        if await _settled_state(model) is ModelState.LOADED:
            yield
            return
        await load_here(model_id=model, options=LoadOptions())
        try:
            yield
        finally:
            await unload_here(model_id=model, force=False)  # others may have come to use it


async def _settled_state(model: str) -> ModelState | None:
    """The state that the host tells of the model once it no longer loads; None where it knows nothing of it."""
    while True:
        state = next((status.state for status in await host().models() if status.model_id == model), None)
        if state is not ModelState.LOADING:
            return state
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def _some_host() -> AsyncIterator[None]:
    try:
        await host().models()
    except HostUnavailable:
        pass
    else:
        yield
        return
    run_dir = Path(tempfile.mkdtemp(prefix="stoa-"))
    process = start_host(run_dir, quiet=True)
    try:
        settings.RUN_DIR = run_dir
        await _wait_for_host()
        yield
    finally:
        end_host(process)
        shutil.rmtree(run_dir, ignore_errors=True)


async def _wait_for_host() -> None:
    deadline = time.monotonic() + HOST_STARTS_WITHIN_S
    while True:
        try:
            await host().models()
        except HostUnavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
        else:
            return
