"""A model that is loaded for the duration of a command, in the running model host or in a temporary one."""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from django.conf import settings

from inference.cli.server import run_remotely
from inference.engine import HostUnavailable, LoadOptions, ModelState
from inference.local.clients import host
from inference.pools.cache import find_pool
from inference.registry.model_status import is_loaded
from inference.registry.services import find_model, load_on_host, unload_from_host
from inference.registry.supervisor import start_host, stop_host

START_TIMEOUT_SECONDS = 30.0


@contextlib.asynccontextmanager
async def loaded_model(model: str) -> AsyncIterator[None]:
    """Keep a model loaded within the block, and unload it afterwards if it was not loaded before.

    Raise as `services.load_model` does.
    """
    run_remotely(model)
    if await find_pool(model):
        yield
        return
    if not await is_loaded(model):
        await find_model(model)
    async with _running_host():
        if await _wait_while_loading(model) is ModelState.LOADED:
            yield
            return
        await load_on_host(model_id=model, options=LoadOptions())
        try:
            yield
        finally:
            await unload_from_host(model_id=model, force=False)  # other clients may use it by now


async def _wait_while_loading(model: str) -> ModelState | None:
    """Return the model's state once it is not loading, or None if the host does not have it."""
    while True:
        state = next((status.state for status in await host().models() if status.model_id == model), None)
        if state is not ModelState.LOADING:
            return state
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def _running_host() -> AsyncIterator[None]:
    """Use the running model host within the block, or else start a temporary one."""
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
        stop_host(process)
        shutil.rmtree(run_dir, ignore_errors=True)


async def _wait_for_host() -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while True:
        try:
            await host().models()
        except HostUnavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
        else:
            return
