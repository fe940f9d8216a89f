"""Base classes for the ViewSets of REST resources, and the router that registers them.

    router = ApiRouter()
    router.register("shops", ShopViewSet)
    router.register("shops/<id:shop_id>/staff", ShopStaffViewSet, "shop-staff")
    urlpatterns = router.urls

A ViewSet combines the mixins of its actions with `ApiViewSet`. It overrides `get_queryset`, `perform_*` and extra
actions; `perform_create` and `perform_update` call one service and return the row that the response shows.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import Case, When
from django.http import Http404
from rest_framework.permissions import SAFE_METHODS, AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from shared.api.idempotency.store import IdempotencyMode
from shared.api.parsers import CredentialsJSONParser
from shared.api.query_params import DEFAULT_LANGUAGE, get_language, parse_integer
from shared.api.slugs import is_numeric, normalize_slug


class ApiRouter(SimpleRouter):
    """A router whose paths end without a slash and use path converters, also in the prefix of a nested resource."""

    def __init__(self) -> None:
        super().__init__(trailing_slash=False, use_regex_path=False)


class ApiViewSet(GenericViewSet[Any]):
    """A resource with one serializer for responses and others for request bodies.

    `serializer_class` writes responses. The three mappings have exceptions by action: serializers of request bodies,
    other serializers of responses, and other permissions. An unsupported method needs the permission to write.
    """

    lookup_value_converter = "id"
    request_serializer_classes: ClassVar[Mapping[str, Any]] = {}
    response_serializer_classes: ClassVar[Mapping[str, Any]] = {}
    action_permission_classes: ClassVar[Mapping[str, Any]] = {}

    def get_permissions(self) -> list[Any]:
        classes = self.action_permission_classes.get(self.action or self._write_action(), self.permission_classes)
        return [permission() for permission in classes]

    def _write_action(self) -> str:
        """Return the last action of this route that writes, or an empty string.

        The last is DELETE where there is one, which authors of content may use while PUT is for others.
        """
        actions = [action for method, action in self.action_map.items() if method.upper() not in SAFE_METHODS]
        return actions[-1] if actions else ""

    def get_serializer_class(self) -> Any:
        return self.request_serializer_classes.get(self.action) or self.get_response_serializer_class()

    def get_response_serializer_class(self) -> Any:
        return self.response_serializer_classes.get(self.action, self.serializer_class)

    def represent(self, instance: Any) -> Any:
        """Return the body of a response that shows `instance`."""
        return self.get_response_serializer_class()(instance, context=self.get_serializer_context()).data

    def validated(self, *args: Any, **kwargs: Any) -> Any:
        """Return the action's request serializer with a valid body. Raises ValidationError for an invalid one."""
        serializer = self.get_serializer(*args, data=self.request.data, **kwargs)
        serializer.is_valid(raise_exception=True)
        return serializer


class CreateMixin:
    """POST to the collection. It returns 201 with the row that `perform_create` returns."""

    create_status_code = 201

    def create(self: Any, request: Request, **path: Any) -> Response:
        instance = self.perform_create(self.validated())
        return Response(self.represent(instance), status=self.create_status_code)


class UpdateMixin:
    """PUT of one object. It returns the row that `perform_update` returns.

    A partial update changes only the fields that the body names.
    """

    is_partial_update = False

    def update(self: Any, request: Request, **path: Any) -> Response:
        serializer = self.validated(self.get_object(), partial=self.is_partial_update)
        return Response(self.represent(self.perform_update(serializer)))


class DestroyMixin:
    """DELETE of one object. It returns 200 with `true`."""

    def destroy(self: Any, request: Request, **path: Any) -> Response:
        self.perform_destroy(self.get_object())
        return Response(True)


class DestroyWithRecordMixin:
    """DELETE of one object. It returns 200 with the object as it was."""

    def destroy(self: Any, request: Request, **path: Any) -> Response:
        instance = self.get_object()
        record = self.represent(instance)
        self.perform_destroy(instance)
        return Response(record)


class SlugOrIdLookupMixin:
    """A ViewSet that finds its object by id if the key in the path is a number, else by slug.

    `slug_field` may name another unique text column. Where a slug is unique within a language only, the query
    parameter `language` chooses the language. Without it English comes first, then the oldest row.
    """

    lookup_url_kwarg: str | None = "key"
    lookup_value_converter = "slug_or_id"
    slug_field = "slug"
    has_slug_per_language = False

    def get_object(self: Any) -> Any:
        """Return the object. Raises Http404."""
        rows, key = self.filter_queryset(self.get_queryset()), self.kwargs[self.lookup_url_kwarg]
        if is_numeric(key):
            number = parse_integer(key)
            found = None if number is None else rows.filter(pk=number).first()
        else:
            found = self._find_by_slug(rows, normalize_slug(key))
        if found is None:
            raise Http404
        return found

    def _find_by_slug(self: Any, rows: Any, slug: str) -> Any:
        rows = rows.filter(**{self.slug_field: slug})
        if not self.has_slug_per_language:
            return rows.first()
        if self.request.query_params.get("language"):
            return rows.filter(language=get_language(self.request)).first()
        return rows.order_by(Case(When(language=DEFAULT_LANGUAGE, then=0), default=1), "pk").first()


class PublicView(APIView):
    """View that needs no credentials and ignores any that are sent, even expired ones."""

    authentication_classes = []
    permission_classes = [AllowAny]
    parser_classes = [CredentialsJSONParser]
    idempotency = IdempotencyMode.DISABLED
