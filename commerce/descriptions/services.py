"""Writing a description: whose product it is for, what the provider makes of it, and the draft that is kept."""

from collections.abc import AsyncGenerator
from datetime import datetime

from django.conf import settings

from commerce.catalog.models import Product
from commerce.descriptions import prompts
from commerce.descriptions.models import DescriptionDraft
from commerce.descriptions.prompts import Brief
from commerce.descriptions.provider import Provider, ProviderBusy, ProviderError, provider_for
from shared.accounts.models import User
from shared.api.errors import ApiError


class DescriptionFailed(ApiError):
    """The provider gave no description."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message, code="ai_provider_error")


class DescriptionsBusy(ApiError):
    """Too many descriptions are being written at once."""

    def __init__(self) -> None:
        super().__init__(503, "Too many descriptions are being written just now.", headers={"Retry-After": "5"})


async def find_product(*, user: User, product_id: int) -> Product:
    """The product of a shop that this user owns or works in. Raises ApiError 404 for any other, known or not."""
    product = await Product.objects.for_user(user).filter(pk=product_id).afirst()
    if product is None:
        raise ApiError(404, "Your shops have no product with this id.")
    return product


async def write_description(*, brief: Brief) -> str:
    """A whole description, preferably one that names the product. Raises DescriptionFailed, DescriptionsBusy."""
    try:
        return await _provider().write(
            prompts.messages(brief),
            max_tokens=prompts.max_tokens(brief),
            accept=lambda text: prompts.names_product(text, brief),
        )
    except ProviderError as error:
        raise DescriptionFailed(str(error)) from None
    except ProviderBusy:
        raise DescriptionsBusy from None


async def stream_description(*, brief: Brief) -> AsyncGenerator[str, None]:
    """The pieces of one description as they are written. Closing it ends the provider's work.
    Raises DescriptionFailed, DescriptionsBusy, before the first piece or between two."""
    pieces = _provider().stream(prompts.messages(brief), max_tokens=prompts.max_tokens(brief))
    try:
        async for piece in pieces:
            yield piece
    except ProviderError as error:
        raise DescriptionFailed(str(error)) from None
    except ProviderBusy:
        raise DescriptionsBusy from None
    finally:
        await pieces.aclose()


async def save_draft(*, product: Product, author: User, text: str, now: datetime) -> DescriptionDraft:
    """Keeps the text for the product, word for word."""
    return await DescriptionDraft.objects.acreate(
        product=product, author=author, text=text, model=settings.DESCRIPTIONS_MODEL, created_at=now
    )


def _provider() -> Provider:
    return provider_for(
        base_url=settings.DESCRIPTIONS_BASE_URL,
        api_key=settings.DESCRIPTIONS_API_KEY,
        model=settings.DESCRIPTIONS_MODEL,
    )
