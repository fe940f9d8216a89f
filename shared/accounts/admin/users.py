"""Django admin of users, who are deactivated and never deleted."""

from copy import copy
from functools import partial
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group
from django.contrib.auth.views import PasswordChangeView
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path, reverse_lazy
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _

from shared.accounts import services
from shared.accounts.admin.forms import AdminSignInForm, NewUserForm, OwnPasswordForm, PasswordForm, UserForm
from shared.accounts.admin.second_factor import second_factor_page
from shared.accounts.models import User
from shared.accounts.personal_data.erasure import erase_person
from shared.accounts.personal_data.export import export_person
from shared.accounts.sign_ins.second_factor import remove_second_factor
from shared.api.admin.base import LargeTableAdmin, NoDeleteMixin
from shared.api.errors import ApiError, ValidationFailed
from shared.request_threads import response_chunks

admin.site.unregister(Group)  # roles take the place of Django's groups
admin.site.login_form = AdminSignInForm
admin.site.login_template = "accounts/sign_in.html"


def change_own_password(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:
    """Answer as the admin's own view, whose form saves without a service."""
    return PasswordChangeView.as_view(
        form_class=OwnPasswordForm,
        success_url=reverse_lazy("admin:password_change_done"),
        extra_context=admin.site.each_context(request) | (extra_context or {}),
    )(request)


admin.site.password_change = change_own_password  # type: ignore[method-assign,assignment]


@admin.register(User)
class UserAdmin(NoDeleteMixin, DjangoUserAdmin, LargeTableAdmin):  # type: ignore[misc, type-arg]
    form = UserForm
    add_form = NewUserForm
    add_form_template = None
    list_display = ["email", "name", "role", "is_active", "created_at", "last_login"]
    list_filter = ["role", "is_active"]
    search_fields = ["email", "name"]
    search_help_text = "Search by the beginning of an e-mail address or a name, or by id"  # type: ignore[misc]
    ordering = ["email"]
    sortable_by = ["email", "created_at", "last_login"]
    filter_horizontal = []
    readonly_fields = ["password_link", "email_verified_at", "created_at", "last_login"]
    fieldsets = [
        (None, {"fields": ["email", "name", "role", "is_active", "password_link"]}),
        ("Model server", {"fields": ["may_run_inference", "monthly_token_limit"]}),
        ("Storage of the shop", {"fields": ["attachment_byte_limit", "attachment_count_limit"]}),
        ("Dates", {"fields": ["created_at", "email_verified_at", "last_login"]}),
    ]
    add_fieldsets = [(None, {"fields": ["email", "name", "role", "password1", "password2"]})]
    actions = ["deactivate", "turn_off_second_factor", "export", "erase"]

    def get_urls(self) -> list[Any]:
        page = login_required(second_factor_page, login_url="admin:login")  # for users of dashboards as well
        return [path("second-factor/", page, name="accounts_user_second_factor"), *super().get_urls()]

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        for_request = copy(self)  # Django's view passes its form no request
        for_request.change_password_form = partial(PasswordForm, actor=cast(User, request.user))
        return super(UserAdmin, for_request).user_change_password(request, id, form_url)

    @admin.display(description="Password")
    def password_link(self, user: User) -> str:
        return format_html(
            '<a href="../password/">{}</a>', _("Set a new password, which signs the user out everywhere")
        )

    def save_model(self, request: HttpRequest, obj: User, form: "ModelForm[User]", change: bool) -> None:
        data = form.cleaned_data
        if change:
            services.change_user(
                user=obj,
                name=data["name"],
                email=data["email"],
                role=data["role"],
                is_active=data["is_active"],
                actor=cast(User, request.user),
            )
            services.set_inference_access(user=obj, is_allowed=data["may_run_inference"])
            services.set_monthly_token_limit(user=obj, tokens=data["monthly_token_limit"])
            services.set_attachment_limits(
                user=obj, max_bytes=data["attachment_byte_limit"], max_count=data["attachment_count_limit"]
            )
            return
        user = services.create_user(
            email=data["email"],
            name=data["name"],
            password=data["password1"],
            role=data["role"],
            now=timezone.now(),
        )
        services.record_security_event("created", user=user, actor=cast(User, request.user), role=user.role)
        obj.pk = user.pk
        obj.refresh_from_db()

    @admin.action(description="Deactivate selected users")
    def deactivate(self, request: HttpRequest, users: QuerySet[User]) -> None:
        for user in users:
            try:
                services.deactivate_user(user=user, actor=cast(User, request.user))
            except ValidationFailed as error:
                self.message_user(request, f"{user}: {error}", messages.ERROR)

    @admin.action(description="Turn off the second factor of selected users")
    def turn_off_second_factor(self, request: HttpRequest, users: QuerySet[User]) -> None:
        actor, now = cast(User, request.user), timezone.now()
        others = users.exclude(pk=actor.pk)  # who turns off the own one enters a code
        count = sum(remove_second_factor(user=user, actor=actor, now=now) for user in others)
        self.message_user(request, _("Second factors turned off: %(count)d.") % {"count": count})

    @admin.action(description="Export the data of the selected user as JSON")
    def export(self, request: HttpRequest, users: QuerySet[User]) -> HttpResponseBase | None:
        user = users.first()
        if user is None or users.count() != 1:
            self.message_user(request, _("Select exactly one user to export."), messages.ERROR)
            return None
        chunks = response_chunks(request, export_person(user=user))
        headers = {"Content-Disposition": f'attachment; filename="person-{user.pk}.json"'}
        return StreamingHttpResponse(chunks, content_type="application/json", headers=headers)

    @admin.action(description="Erase the personal data of selected users")
    def erase(self, request: HttpRequest, users: QuerySet[User]) -> HttpResponseBase | None:
        if "confirmed" not in request.POST:
            context = self.admin_site.each_context(request) | {"users": users, "title": _("Erase people")}
            return TemplateResponse(request, "accounts/erase.html", context)
        for user in users:
            try:
                erase_person(user=user, actor=cast(User, request.user), now=timezone.now())
            except ApiError as error:
                self.message_user(request, f"{user}: {error}", messages.ERROR)
            else:
                self.message_user(request, f"User {user.pk} is erased here. Erase them in the other project too.")
        return None
