"""Rounds of draws from the text provider, until a text keeps the rules and is good."""

import asyncio
from contextlib import aclosing

from django.conf import settings

from commerce.descriptions.provider.client import (
    CALL_TIMEOUT_SECONDS,
    FAILED,
    Provider,
    ProviderBusy,
    ProviderError,
    get_provider,
)
from commerce.descriptions.text import prompts
from commerce.descriptions.text.best_text import BestText
from commerce.descriptions.text.prompts import DescriptionRequest

MAX_ROUNDS = 4
# After these no round begins, where a text keeps the rules or none does.
MAX_POLISH_SECONDS = 1.2
MAX_REDRAW_SECONDS = 8.0


def text_provider(model: str) -> Provider:
    """Return the provider in the settings for this model."""
    return get_provider(base_url=settings.DESCRIPTIONS_BASE_URL, api_key=settings.DESCRIPTIONS_API_KEY, model=model)


async def draw_best(request: DescriptionRequest, model: str, *, wanted: int = 1) -> BestText:
    """Draw several texts at once, up to MAX_ROUNDS times, until so many are accepted, and return the best.

    Each round has the facts in another order, since a model that cannot word one order often can another. A failure
    after the first text ends the drawing. Raises ProviderError, ProviderBusy before it.
    """
    best = BestText(request, model, wanted)
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        for number in range(MAX_ROUNDS):
            await _add_draws(best, number, began + CALL_TIMEOUT_SECONDS)
            max_seconds = MAX_POLISH_SECONDS if best.text else MAX_REDRAW_SECONDS
            if best.is_accepted or clock() - began > max_seconds:
                break
    except (ProviderError, ProviderBusy):
        if not best.count:
            raise
    if not best.count:
        raise ProviderError(FAILED)
    return best


async def _add_draws(best: BestText, order: int, deadline: float) -> None:
    """Compare a round of draws with the facts in an order. A final one ends the others."""
    draws = text_provider(best.model).draws(
        prompts.build_messages(best.request, best.model, order=order),
        max_tokens=prompts.max_tokens(best.request),
        count=max(settings.DESCRIPTIONS_DRAWS, best.wanted),
        deadline=deadline,
    )
    async with aclosing(draws):
        async for draw in draws:
            best.add(draw.text, ended=draw.ended)
            if best.is_final:
                return
