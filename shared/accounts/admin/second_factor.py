"""The admin page on which users turn their own second factor on and off."""

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

from shared.accounts.admin.forms import CodeForm
from shared.accounts.models import SecondFactor, User
from shared.accounts.sign_ins import second_factor
from shared.api.errors import ApiError


@never_cache
def second_factor_page(request: HttpRequest) -> HttpResponse:
    """Show the state of the user's second factor, and change it."""
    user = cast(User, request.user)
    action = request.POST.get("action", "")
    form = CodeForm(request.POST if action not in ("", "begin") else None, auto_id=f"{action}_%s")
    context: dict[str, Any] = {}
    try:
        if action == "begin":
            second_factor.begin_second_factor(user=user)
        elif action and form.is_valid():
            codes = _carry_out(action, user, form.cleaned_data["otp"])
            update_session_auth_hash(request, user)
            if not codes:
                messages.success(request, _("The second factor is off."))
                return HttpResponseRedirect(request.path)
            context["recovery_codes"] = codes
    except ApiError as error:
        form.add_error("otp", str(error)) if form.is_bound else messages.error(request, str(error))
    if action in ("begin", "turn_on") and (waiting := second_factor.waiting_second_factor(user)):
        context |= _setup_context(waiting)
    factor = SecondFactor.objects.filter(user=user).exclude(confirmed_at=None).first()
    context |= {"title": _("Second factor"), "form": form, "factor": factor}
    context |= {"is_required": settings.REQUIRE_SECOND_FACTOR}
    return TemplateResponse(request, "accounts/second_factor.html", admin.site.each_context(request) | context)


def _carry_out(action: str, user: User, code: str) -> list[str]:
    """Change the second factor and return new recovery codes, if any."""
    now = timezone.now()
    if action == "turn_on":
        return second_factor.turn_on_second_factor(user=user, code=code, now=now)
    if action == "new_codes":
        return second_factor.renew_recovery_codes(user=user, code=code, now=now)
    second_factor.turn_off_own_second_factor(user=user, code=code, now=now)
    return []


def _setup_context(factor: SecondFactor) -> dict[str, Any]:
    uri, key = second_factor.authenticator_uri(factor), second_factor.authenticator_key(factor)
    image = segno.make(uri).svg_inline(scale=4, svgclass=None, lineclass=None, omitsize=False)
    return {"uri": uri, "key": key, "qr_code": image}
