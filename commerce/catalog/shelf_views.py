"""Types and categories: read by everybody, written by super admins."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.catalog import shelves
from commerce.catalog.filters import CategoryFilters, TypeFilters
from commerce.catalog.serializers import (
    CategorySerializer,
    CategoryWriteSerializer,
    NewCategorySerializer,
    NewTypeSerializer,
    TypeSerializer,
    TypeWriteSerializer,
)
from shared.accounts.permissions import HasRole, ReadOnly
from shared.api.keys import KeyedView
from shared.api.pagination import BareArray, PagedList

READ_OR_SUPER_ADMIN = ReadOnly | HasRole.of("SUPER_ADMIN")


class ShelfListView(ListAPIView[Any]):
    """Types or categories in one language, the oldest first."""

    permission_classes = [READ_OR_SUPER_ADMIN]
    new_serializer_class: Any

    def get_queryset(self) -> "QuerySet[Any]":
        return self.filterset_class.Meta.model.objects.order_by("id")  # type: ignore[attr-defined, no-any-return]

    def post(self, request: Request) -> Response:
        body = self.new_serializer_class(data=request.data)
        body.is_valid(raise_exception=True)
        shelf = self.filterset_class.Meta.model()  # type: ignore[attr-defined]
        shelves.save_shelf(shelf=shelf, values=body.validated_data)
        return Response(self.get_serializer(shelf).data, status=201)


class ShelfView(KeyedView):
    permission_classes = [READ_OR_SUPER_ADMIN]
    has_languages = True
    write_serializer_class: Any

    def get_queryset(self) -> "QuerySet[Any]":
        return self.filterset_class.Meta.model.objects.all()  # type: ignore[attr-defined, no-any-return]

    def put(self, request: Request, **path: Any) -> Response:
        shelf = self.get_object()
        body = self.write_serializer_class(shelf, data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        shelves.save_shelf(shelf=shelf, values=body.validated_data)
        return Response(self.get_serializer(shelf).data)

    def delete(self, request: Request, **path: Any) -> Response:
        """Answers the record; 409 while something stands on it."""
        shelf = self.get_object()
        record = self.get_serializer(shelf).data
        shelves.delete_shelf(shelf=shelf)
        return Response(record)


def _described(what: str, plural: str, tag: str, new: Any, write: Any, record: Any) -> tuple[Any, Any]:
    """The OpenAPI words of the two views of one kind of shelf."""
    of_list = extend_schema_view(
        get=extend_schema(operation_id=plural, tags=[tag], summary=f"List {plural}"),
        post=extend_schema(
            operation_id=f"create_{what}", tags=[tag], summary=f"Add a {what}", request=new, responses={201: record}
        ),
    )
    of_one = extend_schema_view(
        get=extend_schema(operation_id=what, tags=[tag], summary=f"Read a {what}"),
        put=extend_schema(
            operation_id=f"change_{what}",
            tags=[tag],
            summary=f"Change a {what}",
            request=write(partial=True),
            responses=record,
        ),
        delete=extend_schema(operation_id=f"delete_{what}", tags=[tag], summary=f"Delete a {what}", responses=record),
    )
    return of_list, of_one


_list_of_types, _one_type = _described("type", "types", "Types", NewTypeSerializer, TypeWriteSerializer, TypeSerializer)
_list_of_categories, _one_category = _described(
    "category", "categories", "Categories", NewCategorySerializer, CategoryWriteSerializer, CategorySerializer
)


@_list_of_types
class TypeListView(ShelfListView):
    serializer_class = TypeSerializer
    new_serializer_class = NewTypeSerializer
    filterset_class = TypeFilters
    pagination_class = BareArray


@_one_type
class TypeView(ShelfView):
    serializer_class = TypeSerializer
    write_serializer_class = TypeWriteSerializer
    filterset_class = TypeFilters


@_list_of_categories
class CategoryListView(ShelfListView):
    serializer_class = CategorySerializer
    new_serializer_class = NewCategorySerializer
    filterset_class = CategoryFilters
    pagination_class = PagedList


@_one_category
class CategoryView(ShelfView):
    serializer_class = CategorySerializer
    write_serializer_class = CategoryWriteSerializer
    filterset_class = CategoryFilters
