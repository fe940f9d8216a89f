"""How a view of the shop is described in the OpenAPI page where the shop differs from DRF's habits."""

from types import SimpleNamespace
from typing import Any

from django.contrib.auth.models import AnonymousUser
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import Direction, OpenApiParameter

from shared.api.idempotency import Idempotency

KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="1 to 255 printable ASCII characters. Sent again within a day, the first answer comes again, "
    "with `Idempotent-Replayed: true`, and nothing is done twice.",
)


class ShopSchema(AutoSchema):
    """DELETE answers 200 with a body; a POST takes an idempotency key; what everybody may read needs no credential."""

    def get_auth(self) -> Any:
        ways = super().get_auth()
        nobody: Any = SimpleNamespace(method=self.method, user=AnonymousUser(), auth=None)
        is_public = all(permission.has_permission(nobody, self.view) for permission in self.view.get_permissions())
        return [{}, *(way for way in ways if way)] if is_public else ways

    def _get_response_bodies(self, direction: Direction = "response") -> Any:
        answered = self.get_response_serializers()
        if self.method != "DELETE" or isinstance(answered, dict):
            return super()._get_response_bodies(direction)
        as_json: Any = self._get_response_for_code
        return {"200": as_json(answered, "200", direction=direction)}

    def _get_paginator(self) -> Any:
        """Only what is listed comes in pages; what a POST answers is an array."""
        paginator: Any = super()._get_paginator
        return paginator() if self.method == "GET" else None

    def get_override_parameters(self) -> list[Any]:
        manner = getattr(self.view, "idempotency", Idempotency.TOGETHER)
        takes_key = self.method == "POST" and manner != Idempotency.NEVER
        return [*super().get_override_parameters(), *([KEY] if takes_key else [])]
