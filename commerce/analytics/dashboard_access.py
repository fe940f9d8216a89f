"""Who may open the dashboard: the people of the shops and the platform, who sign in at a door of its own.

The admin itself stays the super admins' alone: a session that was opened here shows nothing else of it.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.views import LogoutView, redirect_to_login
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.views.decorators.cache import never_cache
from unfold.forms import AuthenticationForm

from shared.accounts.models import User
from shared.accounts.roles import Role

PEOPLE = frozenset({Role.SUPER_ADMIN, Role.STORE_OWNER, Role.STAFF})
REFUSED = "Please enter the e-mail and the password of a shop's owner or staff, or of a super admin."
View = Callable[..., HttpResponseBase]


class SignInForm(AuthenticationForm):  # type: ignore[misc]
    """Django's, for whoever has figures to see. Everybody else is told what a wrong password is."""

    def confirm_login_allowed(self, user: Any) -> None:
        if user.role not in PEOPLE:
            raise self.get_invalid_login_error()

    def get_invalid_login_error(self) -> ValidationError:
        return ValidationError(REFUSED, code="invalid_login")


class SignOutView(LogoutView):
    http_method_names = ["post"]
    next_page = "dashboard_sign_in"


def shop_people_only(view: View) -> View:
    """Whoever is not signed in is asked to; a customer is refused. Nothing is kept by a browser."""

    @wraps(view)
    def answer(request: HttpRequest, **path_parts: Any) -> HttpResponseBase:
        user = request.user
        if not isinstance(user, User):
            return redirect_to_login(request.get_full_path(), reverse("dashboard_sign_in"))
        if user.role not in PEOPLE:
            raise PermissionDenied
        return view(request, **path_parts)

    return never_cache(answer)
