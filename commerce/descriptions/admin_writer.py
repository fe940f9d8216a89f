"""What the product form in the admin asks for: a description as it is written, and what becomes of the draft. Answers
are JSON and events for the page's script, by coroutines as the API's own: a description takes its time."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from commerce.catalog.models import Product
from commerce.descriptions import allowances, drafts, services
from commerce.descriptions.admin_forms import TextForm, WishesForm, first_error
from commerce.descriptions.admin_words import told
from commerce.descriptions.allowances import holder_of
from commerce.descriptions.streaming import STREAM_HEADERS, DescriptionEvents
from commerce.descriptions.threads import in_thread
from shared.accounts.models import User
from shared.api.errors import ApiError

Deed = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def for_admins(deed: Deed) -> Deed:
    """Passes on who asks, if it is one of the admin's people; whoever is not, and what fails, is told in JSON."""

    @require_POST
    @wraps(deed)
    async def answer(request: HttpRequest, **path: Any) -> HttpResponseBase:
        user = await request.auser()
        if not (isinstance(user, User) and user.is_active and user.is_staff):
            return JsonResponse({"message": _("Sign in again.")}, status=403)
        try:
            return await deed(request, user, **path)
        except ApiError as error:
            problem = error.problem
            return JsonResponse({"message": told(error)}, status=problem.status, headers=problem.headers)

    return answer


@for_admins
async def write(request: HttpRequest, user: User, product_id: int) -> HttpResponseBase:
    """A description of the product, as events; the last one names its draft."""
    form = WishesForm(request.POST)
    if not form.is_valid():
        return _not_right(form)
    product = await in_thread(_product, user, product_id)
    brief, holder = form.brief(product), holder_of(user=user, product=product)

    async def finish(text: str) -> dict[str, Any]:
        now = timezone.now()
        draft = await in_thread(services.save_draft, product=product, author=user, brief=brief, text=text, now=now)
        state = await in_thread(allowances.read, holder=holder, now=now)
        return {"description": text, "draft_id": draft.pk, "left": state.left}

    pieces = services.stream_description(brief=brief, holder=holder, now=timezone.now())
    events = DescriptionEvents(pieces, finish)
    await events.start()
    return StreamingHttpResponse(events, content_type="text/event-stream", headers=STREAM_HEADERS)


@for_admins
async def use(request: HttpRequest, user: User, draft_id: int) -> HttpResponseBase:
    """Makes what the page shows the product's description."""
    form = TextForm(request.POST)
    if not form.is_valid():
        return _not_right(form)
    draft = await in_thread(
        drafts.accept_draft, draft_id=draft_id, actor=user, text=form.cleaned_data["text"], now=timezone.now()
    )
    return JsonResponse({"description": draft.text})


@for_admins
async def discard(request: HttpRequest, user: User, draft_id: int) -> HttpResponseBase:
    await in_thread(drafts.discard_draft, draft_id=draft_id, actor=user, now=timezone.now())
    return JsonResponse({})


def _product(user: User, product_id: int) -> Product:
    product = Product.objects.managed_by(user).filter(pk=product_id).first()
    if product is None:
        raise ApiError(404, "There is no such product.")
    return product


def _not_right(form: Any) -> JsonResponse:
    return JsonResponse({"message": first_error(form)}, status=422)
