"""Writing a description: whose product it is for, what the provider makes of it, and the draft that is kept."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from commerce.catalog.models import Product
from commerce.descriptions import allowances, prompts
from commerce.descriptions.allowances import AllowanceSpent, Holder, Taken
from commerce.descriptions.models import DescriptionDraft, version_of
from commerce.descriptions.plain_text import plain_text, visible
from commerce.descriptions.prompts import Brief
from commerce.descriptions.provider import FAILED, Provider, ProviderBusy, ProviderError, provider_for
from commerce.descriptions.threads import in_thread
from shared.accounts.models import User
from shared.api.errors import ApiError

NO_PRODUCT = "Your shops have no product with this id."
LONGEST_TEXT = 20_000  # characters: as long as a product's description may be

_giving_back: set["asyncio.Task[None]"] = set()


class DescriptionFailed(ApiError):
    """The provider gave no description."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message, code="ai_provider_error")


class DescriptionsBusy(ApiError):
    """Too many descriptions are being written at once."""

    def __init__(self) -> None:
        super().__init__(503, "Too many descriptions are being written just now.", headers={"Retry-After": "5"})


def find_product(*, user: User, product_id: int) -> Product:
    """The product of a shop that this user owns or works in. Raises ApiError 404 for any other, known or not."""
    product = Product.objects.for_user(user).filter(pk=product_id).first()
    if product is None:
        raise ApiError(404, NO_PRODUCT)
    return product


async def write_description(*, brief: Brief, holder: Holder, now: datetime) -> str:
    """A whole description as plain text, preferably one that names the product. What fails is not counted in the
    holder's allowance. Raises AllowanceSpent, DescriptionFailed, DescriptionsBusy."""
    async with _counted(holder, now) as call:
        text = await _provider().write(
            prompts.messages(brief),
            max_tokens=prompts.max_tokens(brief),
            accept=lambda text: prompts.names_product(text, brief),
        )
        text = _usable(text)
        call.counts = True
    return text


async def stream_description(*, brief: Brief, holder: Holder, now: datetime) -> AsyncGenerator[str, None]:
    """The pieces of one description as they are written, without control characters; `plain_text` of the whole is what
    may be kept. Closing it ends the provider's work, and counts if there was any. Raises as `write_description` does,
    before the first piece or between two."""
    async with _counted(holder, now) as call:
        pieces = _provider().stream(prompts.messages(brief), max_tokens=prompts.max_tokens(brief))
        written = ""
        try:
            async for piece in pieces:
                call.counts = True
                written += piece
                if len(written) > LONGEST_TEXT:
                    raise DescriptionFailed(FAILED)
                yield visible(piece)
        finally:
            await pieces.aclose()
        _usable(written)


def save_draft(*, product: Product, author: User, brief: Brief, text: str, now: datetime) -> DescriptionDraft:
    """Keeps the text for the product, with what was asked for; `product` is as it was then. Raises ApiError 404 if by
    now it is deleted or not the author's to change: writing takes a while."""
    if not Product.objects.managed_by(author).filter(pk=product.pk).exists():
        raise ApiError(404, NO_PRODUCT)
    return DescriptionDraft.objects.create(
        product=product,
        author=author,
        text=text,
        written=text,
        based_on=version_of(product.description),
        model=settings.DESCRIPTIONS_MODEL,
        tone=brief.tone,
        language=brief.language,
        keywords=list(brief.keywords),
        max_words=brief.max_words,
        created_at=now,
    )


@dataclass
class _Call:
    """`counts`: the allowance that it took is used."""

    counts: bool = False


@asynccontextmanager
async def _counted(holder: Holder, now: datetime) -> AsyncIterator[_Call]:
    """Around a call of the provider: takes from the allowance, and gives back what came to nothing. The provider's
    errors become ours."""
    taken = await _take(holder, now)
    call = _Call()
    try:
        yield call
    except ProviderError as error:
        call.counts = False
        raise DescriptionFailed(str(error)) from None
    except ProviderBusy:
        call.counts = False
        raise DescriptionsBusy from None
    except DescriptionFailed:
        call.counts = False
        raise
    finally:
        if not call.counts:
            await _to_its_end(in_thread(allowances.give_back, taken=taken))


async def _take(holder: Holder, now: datetime) -> Taken:
    """Of a client that leaves meanwhile it is given back."""
    taking = asyncio.ensure_future(in_thread(allowances.take, holder=holder, now=now))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        await _to_its_end(_give_back(taking))
        raise


async def _give_back(taking: "asyncio.Future[Taken]") -> None:
    with suppress(AllowanceSpent):
        await in_thread(allowances.give_back, taken=await taking)


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """In a task of its own: this one may be cancelled, as its client has left."""
    task = asyncio.ensure_future(work)
    _giving_back.add(task)
    task.add_done_callback(_giving_back.discard)
    await asyncio.shield(task)


def _usable(text: str) -> str:
    """As plain text. Raises DescriptionFailed for what has no words, or more than a description may have."""
    plain = plain_text(text)
    if not plain or len(plain) > LONGEST_TEXT:
        raise DescriptionFailed(FAILED)
    return plain


def _provider() -> Provider:
    return provider_for(
        base_url=settings.DESCRIPTIONS_BASE_URL,
        api_key=settings.DESCRIPTIONS_API_KEY,
        model=settings.DESCRIPTIONS_MODEL,
    )
