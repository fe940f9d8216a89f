"""The page of the first steps."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from commerce.analytics.dashboard.access import shop_page_context
from commerce.catalog.models import ProductType
from commerce.onboarding.forms import FORMS, StepForm
from commerce.onboarding.progress import OWNER_ROLES, STEP_COUNT, OwnerProgress, read_progress
from shared.accounts.models import User
from shared.api.errors import ApiError


@require_http_methods(["GET", "HEAD", "POST"])
def first_steps(request: HttpRequest) -> HttpResponse:
    """Show the steps and how many are done; a POST takes the step that it names."""
    user, now = request.user, timezone.now()
    if not isinstance(user, User) or user.role not in OWNER_ROLES:
        raise PermissionDenied
    progress = read_progress(user, now)
    forms = {step: form() for step, form in FORMS.items()}
    step = request.POST.get("step", "")
    if step not in FORMS:
        return render(request, "onboarding/first_steps.html", _context(request, user, progress, forms))
    form = forms[step] = FORMS[step](request.POST)
    if form.is_valid() and _take_step(form, user, progress):
        return redirect("first_steps")
    return render(request, "onboarding/first_steps.html", _context(request, user, progress, forms), status=422)


def _take_step(form: StepForm, user: User, progress: OwnerProgress) -> bool:
    """Return whether the step was taken; else the form has the error."""
    try:
        form.take_step(user=user, progress=progress, now=timezone.now())
    except ApiError as error:
        texts = [text for messages in (error.problem.errors or {}).values() for text in messages]
        form.add_error(None, " ".join(texts) or error.problem.message)
        return False
    return True


def _context(request: HttpRequest, user: User, progress: OwnerProgress, forms: dict[str, StepForm]) -> dict[str, Any]:
    return shop_page_context(request) | {
        "title": _("First steps"),
        "progress": progress,
        "step_count": STEP_COUNT,
        "forms": forms,
        "has_product_types": ProductType.objects.exists(),
        "may_invite": user.email_verified_at is not None or user.is_superuser,
    }
