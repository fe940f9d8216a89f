"""Views of the description writer on a product's page: write variants, use or discard their drafts.

The page's script reads their JSON. They are coroutines, because writing a description takes long.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from commerce.catalog.models import Product
from commerce.descriptions import drafts, quotas, services
from commerce.descriptions.admin.forms import OptionsForm, TextForm, first_error
from commerce.descriptions.admin.labels import translate_error
from commerce.descriptions.quotas import QuotaOwner
from commerce.descriptions.services import Description
from commerce.descriptions.text import prompts
from commerce.descriptions.text.prompts import DescriptionRequest
from commerce.descriptions.writer import mark_drafts
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.api.query_params import parse_integer
from shared.request_threads import run_in_request_thread

VARIANTS_COUNT = 3

AsyncView = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def json_view(view: AsyncView, *, may_use: Callable[[User], bool]) -> AsyncView:
    """Pass the signed-in user to the view. Answer JSON to users who may not use it, and for an ApiError."""

    @require_POST
    @wraps(view)
    async def wrapper(request: HttpRequest, **ids: Any) -> HttpResponseBase:
        user = await request.auser()
        if not (isinstance(user, User) and user.is_active and may_use(user)):
            return JsonResponse({"message": _("Sign in again.")}, status=403)
        try:
            return await view(request, user, **ids)
        except ApiError as error:
            problem = error.problem
            return JsonResponse({"message": translate_error(error)}, status=problem.status, headers=problem.headers)

    return wrapper


async def write(request: HttpRequest, user: User, product_id: int) -> HttpResponseBase:
    """Write variants of a description of the product, and return them as drafts with what the model was told."""
    form = OptionsForm(request.POST)
    if not form.is_valid():
        return _form_error(form)
    product = await run_in_request_thread(services.find_product, user=user, product_id=product_id)
    description_request = form.to_request(product)
    owner = quotas.find_owner(user=user, product=product)
    variants = await services.write_variants(
        request=description_request, owner=owner, now=timezone.now(), count=VARIANTS_COUNT
    )
    return JsonResponse(
        await run_in_request_thread(_save_variants, user, product, owner, description_request, variants)
    )


async def use(request: HttpRequest, user: User, draft_id: int) -> HttpResponseBase:
    """Make the text on the page the product's description, and discard the `other` variants."""
    form = TextForm(request.POST)
    if not form.is_valid():
        return _form_error(form)
    draft = await run_in_request_thread(
        drafts.accept_draft, draft_id=draft_id, actor=user, text=form.cleaned_data["text"], now=timezone.now()
    )
    others = [number for text in request.POST.getlist("other") if (number := parse_integer(text)) is not None]
    await run_in_request_thread(drafts.discard_drafts, draft_ids=others, actor=user, now=timezone.now())
    return JsonResponse({"description": draft.text})


async def discard(request: HttpRequest, user: User, draft_id: int) -> HttpResponseBase:
    """Discard the draft."""
    await run_in_request_thread(drafts.discard_draft, draft_id=draft_id, actor=user, now=timezone.now())
    return JsonResponse({})


def _save_variants(
    user: User, product: Product, owner: QuotaOwner, request: DescriptionRequest, variants: Sequence[Description]
) -> dict[str, Any]:
    """Save the variants as drafts, the best as the newest, and return the fields of the response."""
    now = timezone.now()
    saved = [
        services.save_draft(
            product=product, author=user, request=request, text=each.text, is_fallback=each.is_fallback, now=now
        )
        for each in reversed(variants)
    ]
    return {
        "told": prompts.instructions(request, settings.DESCRIPTIONS_MODEL),
        "left": quotas.get_status(owner=owner, now=now).left,
        "variants": [
            {
                "draft_id": marked.draft.pk,
                "parts": [[part.text, part.is_marked] for part in marked.parts],
                "unsupported": marked.unsupported,
                "missing": marked.missing,
                "is_fallback": marked.draft.is_fallback,
            }
            for marked in mark_drafts(product, saved[::-1])
        ],
    }


def _form_error(form: Any) -> JsonResponse:
    return JsonResponse({"message": first_error(form)}, status=422)


def writer_urls(*, prefix: str, name: str, may_use: Callable[[User], bool]) -> list[URLPattern]:
    """Return the routes, whose names begin with `name`. The services check which products a user may change."""
    return [
        path(f"{prefix}write/<id:product_id>/", json_view(write, may_use=may_use), name=f"{name}_write"),
        # Not `id`, which is never 0: the page's script replaces the 0 with the draft's id.
        path(f"{prefix}<int:draft_id>/use/", json_view(use, may_use=may_use), name=f"{name}_use"),
        path(f"{prefix}<int:draft_id>/discard/", json_view(discard, may_use=may_use), name=f"{name}_discard"),
    ]
