"""With STOA_REQUIRE_SECOND_FACTOR: staff without a second factor see only the page that sets one up."""

from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from shared.accounts.models import User
from shared.accounts.sign_ins.second_factor import has_second_factor
from shared.api.middleware.pages import HTMLPagesOnly


class RequireSecondFactorMiddleware(HTMLPagesOnly, MiddlewareMixin):
    """Middleware that sends staff without a second factor to its page, from every page under /admin/."""

    def process_request(self, request: HttpRequest) -> HttpResponseRedirect | None:
        if not request.path.startswith(reverse("admin:index")):
            return None
        page, user = reverse("admin:accounts_user_second_factor"), request.user
        is_open = request.path in (page, reverse("admin:logout"), reverse("admin:jsi18n"))
        if is_open or not isinstance(user, User) or not user.is_staff or has_second_factor(user):
            return None
        return HttpResponseRedirect(page)
