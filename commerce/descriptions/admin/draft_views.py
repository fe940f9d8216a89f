"""Views of the description writer on the product form: stream a description, use or discard its draft.

The page's script reads their JSON and events. They are coroutines, because writing a description takes long.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from commerce.catalog.models import Product
from commerce.descriptions import drafts, quotas, services
from commerce.descriptions.admin.forms import OptionsForm, TextForm, first_error
from commerce.descriptions.admin.labels import translate_error
from commerce.descriptions.database_threads import run_in_thread
from commerce.descriptions.streaming import STREAM_HEADERS, DescriptionEvents
from shared.accounts.models import User
from shared.api.errors import ApiError

AsyncView = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def staff_json_view(view: AsyncView) -> AsyncView:
    """Pass the admin user to the view. Answer JSON to other users, and for an ApiError."""

    @require_POST
    @wraps(view)
    async def wrapper(request: HttpRequest, **path: Any) -> HttpResponseBase:
        user = await request.auser()
        if not (isinstance(user, User) and user.is_active and user.is_staff):
            return JsonResponse({"message": _("Sign in again.")}, status=403)
        try:
            return await view(request, user, **path)
        except ApiError as error:
            problem = error.problem
            return JsonResponse({"message": translate_error(error)}, status=problem.status, headers=problem.headers)

    return wrapper


@staff_json_view
async def write(request: HttpRequest, user: User, product_id: int) -> HttpResponseBase:
    """Stream a description of the product as events. The last one has the id of its draft."""
    form = OptionsForm(request.POST)
    if not form.is_valid():
        return _form_error(form)
    product = await run_in_thread(_find_product, user, product_id)
    description_request = form.to_request(product)
    owner = quotas.find_owner(user=user, product=product)

    async def finish(text: str) -> dict[str, Any]:
        now = timezone.now()
        draft = await run_in_thread(
            services.save_draft, product=product, author=user, request=description_request, text=text, now=now
        )
        status = await run_in_thread(quotas.get_status, owner=owner, now=now)
        return {"description": text, "draft_id": draft.pk, "left": status.left, "unchecked": True}

    pieces = services.stream_description(request=description_request, owner=owner, now=timezone.now())
    events = DescriptionEvents(pieces, finish)
    await events.start()
    return StreamingHttpResponse(events, content_type="text/event-stream", headers=STREAM_HEADERS)


@staff_json_view
async def use(request: HttpRequest, user: User, draft_id: int) -> HttpResponseBase:
    """Make the text on the page the product's description."""
    form = TextForm(request.POST)
    if not form.is_valid():
        return _form_error(form)
    draft = await run_in_thread(
        drafts.accept_draft, draft_id=draft_id, actor=user, text=form.cleaned_data["text"], now=timezone.now()
    )
    return JsonResponse({"description": draft.text})


@staff_json_view
async def discard(request: HttpRequest, user: User, draft_id: int) -> HttpResponseBase:
    """Discard the draft."""
    await run_in_thread(drafts.discard_draft, draft_id=draft_id, actor=user, now=timezone.now())
    return JsonResponse({})


def _find_product(user: User, product_id: int) -> Product:
    product = Product.objects.managed_by(user).filter(pk=product_id).first()
    if product is None:
        raise ApiError(404, services.PRODUCT_NOT_FOUND)
    return product


def _form_error(form: Any) -> JsonResponse:
    return JsonResponse({"message": first_error(form)}, status=422)
