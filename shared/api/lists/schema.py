"""OpenAPI extensions of both projects: authentication, the parameters of lists, and the relations of `with`."""

from typing import Any

from drf_spectacular.contrib.django_filters import DjangoFilterExtension
from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import force_instance

from shared.api.lists.relations import MAX_WITH_LENGTH
from shared.api.lists.search import MAX_SEARCH_LENGTH

MAX_NAME_LENGTH = 100


class ListAutoSchema(AutoSchema):
    """Schema generator that also describes `with` for single objects."""

    def get_filter_backends(self) -> list[Any]:
        return list(getattr(self.view, "filter_backends", [])) if self.method == "GET" else []

    def _get_paginator(self) -> Any:
        """Return the paginator of a GET; the response to a POST is not paginated."""
        return super()._get_paginator() if self.method == "GET" else None  # type: ignore[no-untyped-call]


class ListQueryExtension(DjangoFilterExtension):  # type: ignore[no-untyped-call]
    """Query parameters of `shared.api.lists.filters`, from the allow-lists of the view's ListFilterSet."""

    target_class = "shared.api.lists.filters.ListFilterBackend"
    priority = 1

    def get_schema_operation_parameters(self, auto_schema: Any, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        filters = getattr(auto_schema.view, "filterset_class", None)
        if filters is None:
            return []
        relations = _relations_parameters(sorted(filters.relations))
        if not auto_schema._is_list_view():
            return relations
        own = super().get_schema_operation_parameters(auto_schema, *args, **kwargs)  # type: ignore[no-untyped-call]
        for parameter in own:
            parameter["description"] = filters.base_filters[parameter["name"]].extra.get("help_text", "")
        searching, ordering = list(filters.search_fields), list(filters.order_fields)
        return [*own, *search_parameters(searching), *_order_parameters(ordering), *relations]


class RelationsExtension(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Schemas of serializers with `Meta.relations`, which are described as optional."""

    target_class = "shared.api.lists.relations.RelationsSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        serializer = force_instance(self.target)  # type: ignore[no-untyped-call]
        serializer.shows_all_relations = True
        schema: dict[str, Any] = auto_schema._map_serializer(serializer, direction, bypass_extensions=True)
        required = [name for name in schema.pop("required", []) if name not in serializer.relation_names()]
        return schema | ({"required": required} if required else {})


def search_parameters(names: list[str]) -> list[dict[str, Any]]:
    """Return the parameters `search`, `searchJoin` and `searchFields` of a list with these names."""
    if not names:
        return []
    return [
        _parameter(
            "search",
            f"Terms `field:value`, separated by semicolons. Fields: {', '.join(names)}. Other fields are ignored. "
            "Numbers and prices may be ranges, as in `10,50`; a term without a field is looked for in all texts.",
            maxLength=MAX_SEARCH_LENGTH,
            example=f"{names[0]}:value",
        ),
        _parameter(
            "searchJoin",
            "Whether rows must match one term (`or`) or all terms (`and`).",
            enum=["or", "and"],
            default="or",
            example="and",
        ),
        _parameter(
            "searchFields",
            "Comparisons `field:like` (contains, ignoring case), `field:=` (equal), `field:in` (one of `a,b`) or "
            "`field:between` (a range), separated by semicolons. Text is compared by `like` by default.",
            maxLength=MAX_SEARCH_LENGTH,
            example=f"{names[0]}:=",
        ),
    ]


def _order_parameters(names: list[str]) -> list[dict[str, Any]]:
    if not names:
        return []
    description = f"Field to sort by: {', '.join(names)}. Other fields are ignored; equal rows are sorted by id."
    return [
        _parameter("orderBy", description, maxLength=MAX_NAME_LENGTH, example=names[0]),
        _parameter("sortedBy", "Direction of `orderBy`.", enum=["asc", "desc"], default="asc", example="desc"),
    ]


def _relations_parameters(names: list[str]) -> list[dict[str, Any]]:
    if not names:
        return []
    description = f"Related records to include, separated by semicolons: {', '.join(names)}. Others are ignored."
    return [_parameter("with", description, maxLength=MAX_WITH_LENGTH, example=names[0])]


def _parameter(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": {"type": "string"} | schema}
