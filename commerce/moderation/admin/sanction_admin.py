"""Admin pages of sanctions: imposed by a form, lifted and kept by actions, never edited."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from commerce.moderation import sanctions
from commerce.moderation.labels import translate_error
from commerce.moderation.models import Sanction
from shared.accounts.models import User
from shared.accounts.permissions import signed_in_user
from shared.api.admin.base import LargeTableAdmin, NoDeleteMixin
from shared.api.errors import ApiError


class SanctionForm(ModelForm):  # type: ignore[type-arg]
    """A new sanction. The service makes it, and its refusal is an error of the form."""

    user_id = forms.IntegerField(label=_("User id"), min_value=1, widget=UnfoldAdminIntegerFieldWidget)
    days = forms.IntegerField(
        label=_("Days"),
        min_value=1,
        max_value=sanctions.MAX_DAYS,
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=_("Only of a limit and a suspension."),
    )
    moderator: User

    class Meta:
        model = Sanction
        fields = ["kind", "reason", "note"]
        labels = {"reason": _("Reason: sent to the user"), "note": _("Note: moderators only")}

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors:
            try:
                self.made = sanctions.impose_sanction(moderator=self.moderator, **data, now=timezone.now())
            except ApiError as error:
                raise ValidationError(translate_error(error)) from None
        return data


@admin.register(Sanction)
class SanctionAdmin(NoDeleteMixin, LargeTableAdmin):
    form = SanctionForm
    list_display = ["created_at", "user", "kind", "reason", "ends_at", "lifted_at", "appeal", "moderator"]
    list_filter = ["kind", "appeal"]
    list_select_related = ["user", "moderator"]
    search_fields = ["user__email", "user__name"]
    search_help_text: Any = _("The beginning of the e-mail or the name of a user, or an id")
    fields = ["user_id", "kind", "days", "reason", "note"]
    actions = ["lift", "keep"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(self.has_view_permission(request))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Sanction | None = None) -> Any:
        return self.fields if obj is None else [field.name for field in Sanction._meta.fields]

    def get_form(self, request: HttpRequest, obj: Sanction | None = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is not None:
            return super().get_form(request, obj, change, form=ModelForm, **kwargs)
        form = super().get_form(request, obj, change, **kwargs)
        form.moderator = request.user
        return form

    def save_model(self, request: HttpRequest, obj: Sanction, form: Any, change: bool) -> None:
        """Take the row that the form made."""
        obj.pk = form.made.pk
        obj.refresh_from_db()

    @admin.action(description=_("Lift: it ends now, and an appeal succeeds"), permissions=["view"])
    def lift(self, request: HttpRequest, selected: "QuerySet[Sanction]") -> None:
        self._decide(request, selected, sanctions.lift_sanction)

    @admin.action(description=_("Keep: the appeal fails"), permissions=["view"])
    def keep(self, request: HttpRequest, selected: "QuerySet[Sanction]") -> None:
        self._decide(request, selected, sanctions.keep_sanction)

    def _decide(self, request: HttpRequest, selected: "QuerySet[Sanction]", make: Callable[..., Sanction]) -> None:
        for sanction in selected:
            try:
                make(sanction_id=sanction.pk, moderator=signed_in_user(request), now=timezone.now())
            except ApiError as error:
                self.message_user(request, f"{sanction}: {translate_error(error)}", messages.ERROR)
