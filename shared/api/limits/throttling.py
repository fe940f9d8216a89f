"""Limits of single routes, as DRF throttles: counted for each user, or each address where nobody is signed in.

throttle_classes = [RateLimit.of("content", "CONTENT_WRITE_LIMIT")]
throttle_classes = [RateLimit.of("deletes", "DELETE_LIMIT", methods=("DELETE",))]
"""

from typing import Any, ClassVar

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from shared.api.limits.rate_limits import address_key, hit, raise_if_limited, rate_limit_headers


class RateLimitThrottle(BaseThrottle):
    """Lets so many requests a minute through, over all routes of one bucket, and puts what is left on every answer.
    It counts those who may, and before their body is read: a refused body counts, a refused credential does not."""

    bucket: ClassVar[str]
    setting: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]

    @classmethod
    def of(cls, bucket: str, setting: str, *, methods: tuple[str, ...] = ("POST",)) -> Any:
        """A throttle class for these methods; `setting` names the limit a minute."""
        return type("RateLimit", (cls,), {"bucket": bucket, "setting": setting, "methods": methods})

    def allow_request(self, request: Request, view: Any) -> bool:
        """True, or ApiError 429."""
        if request.method in self.methods:
            decision = hit(self.bucket, throttle_key(request), limit=getattr(settings, self.setting))
            view.headers.update(rate_limit_headers(decision))
            raise_if_limited(decision)
        return True


def throttle_key(request: Request) -> str:
    """The key under which this request is counted."""
    if request.user.is_authenticated:
        return f"user:{request.user.pk}"
    return f"address:{address_key(request.META.get('REMOTE_ADDR', ''))}"
