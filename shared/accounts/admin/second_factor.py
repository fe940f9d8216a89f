"""The admin page on which users turn their own second factor on and off."""

import contextlib
from collections.abc import Callable
from typing import Any, cast

import segno
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from shared.accounts.admin.forms import WRONG_CODE, CodeForm
from shared.accounts.models import SecondFactor, User
from shared.accounts.sign_ins import second_factor
from shared.api.errors import ApiError, ValidationFailed
from shared.encryption import DecryptionFailed

# What forms of the page do, by the value of `action`. They return recovery codes, if any.
CHANGES: dict[str, Callable[..., list[str] | None]] = {
    "turn_on": second_factor.turn_on_second_factor,
    "new_codes": second_factor.renew_recovery_codes,
    "turn_off": second_factor.turn_off_own_second_factor,
}


@never_cache
def second_factor_page(request: HttpRequest) -> HttpResponse:
    """Show the state of the user's second factor, and change it."""
    user = cast(User, request.user)
    action = request.POST.get("action", "")
    forms = {name: CodeForm(request.POST if name == action else None, auto_id=f"{name}_%s") for name in CHANGES}
    context: dict[str, Any] = {"title": _("Second factor"), "forms": forms}
    try:
        if action == "begin":
            second_factor.begin_second_factor(user=user)
        elif action in CHANGES and forms[action].is_valid():
            codes = CHANGES[action](user=user, code=forms[action].cleaned_data["otp"], now=timezone.now())
            update_session_auth_hash(request, user)
            if not codes:
                messages.success(request, _("The second factor is off."))
                return HttpResponseRedirect(request.path)
            context["recovery_codes"] = codes
    except ValidationFailed:
        forms[action].add_error("otp", WRONG_CODE)
    except ApiError as error:
        messages.error(request, str(error))
    if action in ("begin", "turn_on") and (waiting := second_factor.waiting_second_factor(user)):
        with contextlib.suppress(DecryptionFailed):  # SECRET_KEY was changed meanwhile: set it up again
            context |= _setup_context(waiting)
    factor = SecondFactor.objects.filter(user=user).exclude(confirmed_at=None).first()
    context |= {"factor": factor, "is_required": settings.REQUIRE_SECOND_FACTOR}
    return TemplateResponse(request, "accounts/second_factor.html", admin.site.each_context(request) | context)


def _setup_context(factor: SecondFactor) -> dict[str, Any]:
    uri, key = second_factor.authenticator_uri(factor), second_factor.authenticator_key(factor)
    image = segno.make(uri).svg_inline(scale=4, svgclass=None, lineclass=None, omitsize=False)
    return {"uri": uri, "key": key, "qr_code": image}
