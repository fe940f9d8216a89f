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
    """Throttle of the requests per minute over all routes of a bucket, with its state in the headers of every response.

    It counts requests that are permitted, before their body is read: a refused body counts, a refused credential does
    not.
    """

    bucket: ClassVar[str]
    setting: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]

    @classmethod
    def of(cls, bucket: str, setting: str, *, methods: tuple[str, ...] = ("POST",)) -> Any:
        """Return a throttle class for these methods; `setting` names the limit per minute."""
        return type("RateLimit", (cls,), {"bucket": bucket, "setting": setting, "methods": methods})

    def allow_request(self, request: Request, view: Any) -> bool:
        """Return True, or raise ApiError 429."""
        is_routed = getattr(view, "action", "") is not None  # a ViewSet answers 405 without an action
        if request.method in self.methods and is_routed:
            decision = hit(self.bucket, throttle_key(request), limit=getattr(settings, self.setting))
            view.headers.update(rate_limit_headers(decision))
            raise_if_limited(decision)
        return True


def throttle_key(request: Request) -> str:
    """Return the key under which the request is counted."""
    if request.user.is_authenticated:
        return f"user:{request.user.pk}"
    return f"address:{address_key(request.META.get('REMOTE_ADDR', ''))}"
