"""Services that write a description and save it as a draft."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog
from django.conf import settings

from commerce.catalog.models import Product
from commerce.descriptions import drafts, quotas
from commerce.descriptions.models import DescriptionDraft, description_digest
from commerce.descriptions.provider.client import FAILED, ProviderBusy, ProviderError
from commerce.descriptions.provider.drawing import draw_best, text_provider
from commerce.descriptions.quotas import QuotaExceeded, QuotaOwner
from commerce.descriptions.text import prompts
from commerce.descriptions.text.best_text import BestText
from commerce.descriptions.text.plain_text import MAX_DESCRIPTION_LENGTH, plain_text, strip_invisible
from commerce.descriptions.text.prompts import DescriptionRequest
from commerce.descriptions.text.rules import plain_statement
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.request_threads import run_in_request_thread

PRODUCT_NOT_FOUND = "Your shops have no product with this id."

log = structlog.get_logger(__name__)

_refund_tasks: set["asyncio.Task[None]"] = set()


def find_product(*, user: User, product_id: int) -> Product:
    """Return the product, if this user may change it. Raise ApiError 404 otherwise."""
    product = Product.objects.managed_by(user).filter(pk=product_id).first()
    if product is None:
        raise ApiError(404, PRODUCT_NOT_FOUND)
    return product


@dataclass(frozen=True, kw_only=True)
class Description:
    """A description as plain text.

    is_fallback: no text of the model kept the rules, so this one states the given facts only.
    is_checked: it was compared with given facts, which a free prompt does not have.
    """

    text: str
    is_fallback: bool = False
    is_checked: bool = True


async def write_description(*, request: DescriptionRequest, owner: QuotaOwner, now: datetime) -> Description:
    """Return the best text of the model that keeps the rules, or a plain statement of the given facts.

    A free prompt gets the model's text as it is. A failure is refunded to the owner's quota. Raises QuotaExceeded,
    ProviderError, ProviderBusy.
    """
    async with _charge_call(owner, now) as call:
        if request.product_name:
            description = await _write_checked(request)
        else:
            description = Description(text=_to_plain_text(await _draw_one(request)), is_checked=False)
        call.is_billable = True
    return description


async def write_variants(
    *, request: DescriptionRequest, owner: QuotaOwner, now: datetime, count: int
) -> list[Description]:
    """Return up to `count` different texts for a product's name, the best first, for somebody who chooses one.

    Texts that keep the rules come first, then others that the model has ended. Without one that keeps them, the first
    is a plain statement of the given facts. All together are charged as one. Raises as `write_description` does.
    """
    async with _charge_call(owner, now) as call:
        best = await draw_best(request, settings.DESCRIPTIONS_MODEL, wanted=count)
        call.is_billable = True
    variants = [Description(text=text) for text in best.variants]
    return [*([] if best.text else [_fallback(best)]), *variants][:count]


async def _write_checked(request: DescriptionRequest) -> Description:
    best = await draw_best(request, settings.DESCRIPTIONS_MODEL)
    return Description(text=best.text) if best.text else _fallback(best)


def _fallback(best: BestText) -> Description:
    """Return a plain statement of the given facts, where no text keeps the rules."""
    log.warning("description_is_fallback", model=best.model, draws=best.count, rules=sorted(best.broken))
    return Description(text=plain_statement(best.request), is_fallback=True)


async def _draw_one(request: DescriptionRequest) -> str:
    messages = prompts.build_messages(request, settings.DESCRIPTIONS_MODEL)
    pieces = text_provider(settings.DESCRIPTIONS_MODEL).stream(messages, max_tokens=prompts.max_tokens(request))
    async with aclosing(pieces):
        return "".join([piece async for piece in pieces]).strip()


async def stream_description(
    *, request: DescriptionRequest, owner: QuotaOwner, now: datetime
) -> AsyncGenerator[str, None]:
    """Yield the pieces of a text as they are written, without control characters. No rule has checked them.

    Only `plain_text` of the whole may be stored. Closing the generator ends the provider's work; a description that had
    begun stays charged. Raises as `write_description` does, before the first piece or between two.
    """
    async with _charge_call(owner, now) as call:
        messages = prompts.build_messages(request, settings.DESCRIPTIONS_MODEL)
        pieces = text_provider(settings.DESCRIPTIONS_MODEL).stream(messages, max_tokens=prompts.max_tokens(request))
        written = ""
        try:
            async for piece in pieces:
                call.is_billable = True
                written += piece
                if len(written) > MAX_DESCRIPTION_LENGTH:
                    raise ProviderError(FAILED)
                yield strip_invisible(piece)
        finally:
            await pieces.aclose()
        _to_plain_text(written)


def save_draft(
    *, product: Product, author: User, request: DescriptionRequest, text: str, now: datetime, is_fallback: bool = False
) -> DescriptionDraft:
    """Save the text as a draft for the product, as it was when the description was requested.

    Raises ApiError 404 if the product was deleted, or the author lost access to it, while the text was written.
    """
    if not Product.objects.managed_by(author).filter(pk=product.pk).exists():
        raise ApiError(404, PRODUCT_NOT_FOUND)
    return drafts.create_draft(
        product=product,
        author_id=author.pk,
        request=request,
        text=text,
        is_fallback=is_fallback,
        based_on=description_digest(product.description),
        model=settings.DESCRIPTIONS_MODEL,
        now=now,
    )


@dataclass
class _ChargedCall:
    """A provider call in progress. Its charge is kept if it is billable."""

    is_billable: bool = False


@asynccontextmanager
async def _charge_call(owner: QuotaOwner, now: datetime) -> AsyncIterator[_ChargedCall]:
    """Charge a provider call to the quota, and refund it if it fails."""
    usage_id = await _charge(owner, now)
    call = _ChargedCall()
    try:
        yield call
    except (ProviderError, ProviderBusy):
        call.is_billable = False
        raise
    finally:
        if not call.is_billable:
            await _run_shielded(run_in_request_thread(quotas.refund, usage_id))


async def _charge(owner: QuotaOwner, now: datetime) -> int:
    """Charge one description and return the row's id. If the client disconnects meanwhile, the charge is refunded."""
    charging = asyncio.ensure_future(run_in_request_thread(quotas.charge, owner=owner, now=now))
    try:
        return await asyncio.shield(charging)
    except asyncio.CancelledError:
        await _run_shielded(_refund_when_charged(charging))
        raise


async def _refund_when_charged(charging: "asyncio.Future[int]") -> None:
    with suppress(QuotaExceeded):
        await run_in_request_thread(quotas.refund, await charging)


async def _run_shielded(work: Coroutine[Any, Any, None]) -> None:
    """Run the coroutine in a task of its own, because a disconnect cancels the current one."""
    task = asyncio.ensure_future(work)
    _refund_tasks.add(task)
    task.add_done_callback(_refund_tasks.discard)
    await asyncio.shield(task)


def _to_plain_text(text: str) -> str:
    """Return the text as plain text. Raise ProviderError for an empty or overlong one."""
    plain = plain_text(text)
    if not plain or len(plain) > MAX_DESCRIPTION_LENGTH:
        raise ProviderError(FAILED)
    return plain
