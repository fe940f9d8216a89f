"""Description of a view in the OpenAPI document, where the shop differs from drf-spectacular's defaults."""

from types import SimpleNamespace
from typing import Any

from django.contrib.auth.models import AnonymousUser
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import Direction, OpenApiParameter
from rest_framework.serializers import ListSerializer

from commerce.config.openapi.common_texts import describe_path_parameter
from shared.api.idempotency.store import IdempotencyMode
from shared.api.lists.pagination import ArrayPagination
from shared.api.lists.schema import ListAutoSchema
from shared.api.viewsets import ApiViewSet, DestroyMixin

IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "example": "0f8fad5b-d9cb-469f-a165-70867728950e"},
    OpenApiParameter.HEADER,
    description="A key of your choice, of up to 255 printable ASCII characters. If the same request is sent again with "
    "the same key within a day, nothing is done and the first response is returned with `Idempotent-Replayed: true`.",
)


class CommerceAutoSchema(ListAutoSchema):
    """Describes the serializers of an ApiViewSet, DELETE responses with a body, idempotency keys and public reads."""

    def get_auth(self) -> Any:
        schemes = super().get_auth()
        anonymous: Any = SimpleNamespace(method=self.method, user=AnonymousUser(), auth=None)
        permissions = self.view.get_permissions()
        is_public = all(permission.has_permission(anonymous, self.view) for permission in permissions)
        return [{}, *(scheme for scheme in schemes if scheme)] if is_public else schemes

    def get_request_serializer(self) -> Any:
        if not isinstance(self.view, ApiViewSet):
            return super().get_request_serializer()
        serializer_class = self.view.request_serializer_classes.get(self.view.action)
        is_partial = self.view.action == "update" and self.view.is_partial_update  # type: ignore[attr-defined]
        return serializer_class(partial=True) if is_partial and serializer_class else serializer_class

    def get_response_serializers(self) -> Any:
        if not isinstance(self.view, ApiViewSet):
            return super().get_response_serializers()
        if self.view.action == "destroy" and isinstance(self.view, DestroyMixin):
            return OpenApiTypes.BOOL
        return self.view.get_response_serializer_class()

    def _get_response_bodies(self, direction: Direction = "response") -> Any:
        serializers = self.get_response_serializers()
        if isinstance(serializers, dict) or self.method not in ("POST", "DELETE"):
            return super()._get_response_bodies(direction)
        action = getattr(self.view, "action", "")
        status_code = str(getattr(self.view, "create_status_code", 200)) if action == "create" else "200"
        describe: Any = self._get_response_for_code
        return {status_code: describe(serializers, status_code, direction=direction)}

    def get_paginated_name(self, serializer_name: str) -> str:
        """Return the component's name: a resource may have an array as well as pages."""
        is_array = isinstance(self._get_paginator(), ArrayPagination)
        return f"{serializer_name}Array" if is_array else super().get_paginated_name(serializer_name)

    def get_description(self) -> str:  # type: ignore[override]
        """Return no description: each operation has its text in its app's `schema.py`, never a docstring."""
        return ""

    def _resolve_path_parameters(self, variables: Any) -> Any:
        parameters: Any = super()._resolve_path_parameters(variables)  # type: ignore[no-untyped-call]
        for parameter in parameters:
            describe_path_parameter(parameter, self.view)
        return parameters

    def _map_serializer_field(self, field: Any, direction: Any, bypass_extensions: bool = False) -> Any:
        """Add the length limits of a list of objects, which drf-spectacular leaves out."""
        map_field: Any = super()._map_serializer_field
        schema: Any = map_field(field, direction, bypass_extensions)
        if isinstance(field, ListSerializer) and schema.get("type") == "array":
            limits = {"maxItems": getattr(field, "max_length", None), "minItems": None if field.allow_empty else 1}
            schema |= {name: limit for name, limit in limits.items() if limit is not None}
        return schema

    def _get_paginator(self) -> Any:
        """Return the paginator of a GET: the array in the response to a POST is not paginated."""
        paginator: Any = super()._get_paginator
        return paginator() if self.method == "GET" else None

    def get_override_parameters(self) -> list[Any]:
        idempotency = getattr(self.view, "idempotency", IdempotencyMode.ATOMIC)
        takes_key = self.method == "POST" and idempotency != IdempotencyMode.DISABLED
        return [*super().get_override_parameters(), *([IDEMPOTENCY_KEY] if takes_key else [])]
