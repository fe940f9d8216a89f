"""Admin page of holding rules, with a preview of what a rule would have held."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from unfold.admin import ModelAdmin

from commerce.moderation.labels import KINDS
from commerce.moderation.models import HoldingRule
from commerce.moderation.queue.holding import MAX_EXAMPLES, preview_rule


@admin.register(HoldingRule)
class HoldingRuleAdmin(ModelAdmin):
    """Rules that hold content before it is public. Moderators see them, super admins change them."""

    list_display = ["name", "kind", "is_active"]
    sortable_by = ()
    autocomplete_fields = ["shops_off"]
    change_form_outer_after_template = "moderation/_preview_button.html"

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Show the preview of the form's rule, which is not saved, if that button was pressed."""
        if request.method == "POST" and "_preview" in request.POST and self.has_add_permission(request):
            form = self.get_form(request)(request.POST)
            if form.is_valid():
                return self._show_preview(request, form)
        return super().changeform_view(request, object_id, form_url, extra_context)

    def _show_preview(self, request: HttpRequest, form: Any) -> HttpResponse:
        off = [shop.pk for shop in form.cleaned_data["shops_off"]]
        rule = form.save(commit=False)
        preview = preview_rule(rule, shops_off=off, now=timezone.now())
        context = admin.site.each_context(request) | {
            "title": _("What the rule would have held"),
            "rule": rule,
            "preview": preview,
            "max_examples": MAX_EXAMPLES,
            "lines": [(KINDS[type(each).__name__], each) for each in preview.examples],
        }
        return render(request, "moderation/holding_preview.html", context)
