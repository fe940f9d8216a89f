"""Authentication backend of the admin's sign-in, with the limits and the timing of the API's."""

from typing import Any

from django.contrib.auth.backends import BaseBackend
from django.http import HttpRequest
from django.utils import timezone

from shared.accounts.models import User
from shared.accounts.services import check_credentials
from shared.accounts.sign_ins.second_factor import SecondFactorRequired
from shared.api.errors import ApiError


class LimitedBackend(BaseBackend):
    """Django authentication backend. Its `authenticate` raises ApiError 429 and 503 as the API's sign-in does.

    It also raises SecondFactorRequired. The code is the `otp` of the sign-in form.
    """

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        email = username or kwargs.get(User.USERNAME_FIELD)
        if email is None or password is None:
            return None
        address = request.META.get("REMOTE_ADDR", "") if request else ""
        otp = request.POST.get("otp", "") if request else ""
        try:
            return check_credentials(email=email, password=password, otp=otp, address=address, now=timezone.now())[0]
        except SecondFactorRequired:
            raise
        except ApiError as error:
            if error.problem.status == 401:
                return None
            raise

    def get_user(self, user_id: int) -> User | None:
        return User.objects.filter(pk=user_id, is_active=True).first()
