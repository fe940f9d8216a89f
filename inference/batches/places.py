"""How many requests of a batch are kept with the engine at once."""

import asyncio

from django.conf import settings

from inference.engine import EngineError
from inference.registry.processes import engine

# Beside those that run, so many wait for each slot, so that one that ends is followed at once.
A_SLOT = 2
MOST = 256
WHERE_UNKNOWN = 32
SAYS_WITHIN_S = 5.0  # a turn that waits for ever is nobody's


async def find_places(model_id: str) -> int:
    """Twice what the model runs at once; other servers, and embedders, do not say."""
    if model_id in settings.REMOTE_MODELS:
        return WHERE_UNKNOWN
    try:
        async with asyncio.timeout(SAYS_WITHIN_S):
            slots = (await engine().stats(model_id)).slots
    except (EngineError, TimeoutError):
        return WHERE_UNKNOWN
    return min(max(slots, 1) * A_SLOT, MOST)
