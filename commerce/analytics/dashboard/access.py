"""Access to the dashboard, which has a sign-in page of its own; that of the admin leads shop users to it too.

The rest of the admin stays with super admins and moderators: a session of a shop user opens nothing else of it.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import admin
from django.contrib.auth.views import LogoutView, redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache

from shared.accounts.admin.forms import AdminSignInForm
from shared.accounts.models import User
from shared.accounts.roles import Role

ALLOWED_ROLES = frozenset({Role.SUPER_ADMIN, Role.STORE_OWNER, Role.STAFF})
View = Callable[..., HttpResponseBase]


class SignInForm(AdminSignInForm):
    """The sign-in form of the dashboard."""

    audience = _("For shop owners, their staff and super admins.")
    error_messages = AdminSignInForm.error_messages | {
        "invalid_login": _("Please enter the e-mail and the password of a shop's owner or staff, or of a super admin.")
    }

    def confirm_login_allowed(self, user: Any) -> None:
        if user.role not in ALLOWED_ROLES:
            raise self.get_invalid_login_error()


class ShopAdminSignInForm(AdminSignInForm):
    """The sign-in form of the admin, for shop users as well."""

    audience = _("For shop owners, their staff, moderators and super admins.")
    error_messages = AdminSignInForm.error_messages | {
        "invalid_login": _(
            "Please enter the e-mail and the password of a shop's owner or staff, of a moderator or of a super admin."
        )
    }

    def confirm_login_allowed(self, user: Any) -> None:
        if user.role not in ALLOWED_ROLES:
            super().confirm_login_allowed(user)


class SignOutView(LogoutView):
    http_method_names = ["post"]
    next_page = "dashboard_sign_in"


def admin_index(request: HttpRequest) -> HttpResponseBase:
    """Show the index of the admin; redirect shop users, who may not see it, to the dashboard."""
    user = request.user
    if isinstance(user, User) and user.role in ALLOWED_ROLES and not user.is_staff:
        return redirect("dashboard")
    index: HttpResponseBase = admin.site.admin_view(admin.site.index)(request)
    return index


def shop_page_context(request: HttpRequest) -> dict[str, Any]:
    """Return the context of `analytics/shop_page.html`. The sidebar of the admin has nothing for shop users."""
    user = request.user
    return admin.site.each_context(request) | {"is_nav_sidebar_enabled": isinstance(user, User) and user.is_staff}


def shop_users_only(view: View) -> View:
    """Redirect anonymous users to the sign-in page, refuse customers, and forbid browsers to cache the page."""

    @wraps(view)
    def wrapper(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        user = request.user
        if not isinstance(user, User):
            return redirect_to_login(request.get_full_path(), reverse("dashboard_sign_in"))
        if user.role not in ALLOWED_ROLES:
            raise PermissionDenied
        return view(request, **kwargs)

    return never_cache(wrapper)
