"""The admin's health page: what the checks of the installation find, and what to do."""

from collections.abc import Callable, Sequence

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from shared.observability.checks import Check, run_checks


def health_page(checks: Sequence[Check]) -> Callable[[HttpRequest], HttpResponse]:
    """Return the view of the page, for super admins."""

    @admin.site.admin_view
    @require_safe
    def view(request: HttpRequest) -> HttpResponse:
        if not request.user.is_superuser:
            raise PermissionDenied
        findings = run_checks(checks)
        rows = [[one.check, _("ok") if one.is_ok else _("problem"), one.found, one.advice] for one in findings]
        problems = sum(not finding.is_ok for finding in findings)
        context = {
            **admin.site.each_context(request),
            "title": _("Health"),
            "problems": problems,
            "table": {"headers": [_("Check"), _("State"), _("Found"), _("What to do")], "rows": rows},
        }
        return TemplateResponse(request, "serving/health.html", context)

    return view
