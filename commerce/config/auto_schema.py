"""How a view of the shop is described in the OpenAPI page where the shop differs from DRF's habits."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from shared.api.idempotency import Idempotency

KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="1 to 255 printable ASCII characters. Sent again within a day, the first answer comes again, "
    "with `Idempotent-Replayed: true`, and nothing is done twice.",
)


class ShopSchema(AutoSchema):  # type: ignore[misc]
    """DELETE answers 200 with a body; a POST takes an idempotency key."""

    def _get_response_bodies(self, direction: str = "response") -> Any:
        answered = self.get_response_serializers()
        if self.method != "DELETE" or isinstance(answered, dict):
            return super()._get_response_bodies(direction)
        return {"200": self._get_response_for_code(answered, "200", direction=direction)}

    def _get_paginator(self) -> Any:
        """Only what is listed comes in pages; what a POST answers is an array."""
        return super()._get_paginator() if self.method == "GET" else None

    def get_override_parameters(self) -> list[Any]:
        manner = getattr(self.view, "idempotency", Idempotency.TOGETHER)
        takes_key = self.method == "POST" and manner != Idempotency.NEVER
        return [*super().get_override_parameters(), *([KEY] if takes_key else [])]
