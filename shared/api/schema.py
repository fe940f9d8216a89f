"""What both projects' OpenAPI pages share: how to sign in, what every list may be asked, and what `with` adds."""

from typing import Any

from drf_spectacular.contrib.django_filters import DjangoFilterExtension
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import force_instance


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """`Authorization: Bearer` with an access token or an API key."""

    target_class = "shared.accounts.authentication.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An access token, or an API key (stoa_...)."}


class ListAutoSchema(AutoSchema):
    """Describes the query of a single thing too, which has `with`."""

    def get_filter_backends(self) -> list[Any]:
        return list(getattr(self.view, "filter_backends", [])) if self.method == "GET" else []

    def _get_paginator(self) -> Any:
        """Only lists that are read come in pages; what a POST answers is whole."""
        return super()._get_paginator() if self.method == "GET" else None  # type: ignore[no-untyped-call]


class ListQueryExtension(DjangoFilterExtension):  # type: ignore[no-untyped-call]
    """The query parameters of `shared.api.listing`, from the allow-lists of the view's ListFilters."""

    target_class = "shared.api.listing.ListQueryBackend"
    priority = 1

    def get_schema_operation_parameters(self, auto_schema: Any, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        filters = getattr(auto_schema.view, "filterset_class", None)
        if filters is None:
            return []
        relations = _relations_parameters(sorted(filters.relations))
        if not auto_schema._is_list_view():
            return relations
        own = super().get_schema_operation_parameters(auto_schema, *args, **kwargs)  # type: ignore[no-untyped-call]
        searching, ordering = list(filters.search_fields), list(filters.order_fields)
        return [*own, *_search_parameters(searching), *_order_parameters(ordering), *relations]


class RelationsExtension(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Records with `Meta.relations`: those are described, and never required."""

    target_class = "shared.api.relations.RelationsSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        serializer = force_instance(self.target)  # type: ignore[no-untyped-call]
        serializer.shows_all_relations = True
        schema: dict[str, Any] = auto_schema._map_serializer(serializer, direction, bypass_extensions=True)
        required = [name for name in schema.pop("required", []) if name not in serializer.relation_names()]
        return schema | ({"required": required} if required else {})


def _search_parameters(names: list[str]) -> list[dict[str, Any]]:
    if not names:
        return []
    return [
        _parameter("search", f"`field:value;field:value`. Fields: {', '.join(names)}. Others are ignored."),
        _parameter("searchJoin", "Whether a row must meet one of the terms, or all.", enum=["or", "and"], default="or"),
        _parameter(
            "searchFields", "How text is compared: `field:like;field:=`. Names are compared by like unless said."
        ),
    ]


def _order_parameters(names: list[str]) -> list[dict[str, Any]]:
    if not names:
        return []
    return [
        _parameter("orderBy", "Rows that are equal in it are ordered by id.", enum=names),
        _parameter("sortedBy", "The direction of orderBy.", enum=["asc", "desc"], default="asc"),
    ]


def _relations_parameters(names: list[str]) -> list[dict[str, Any]]:
    return [_parameter("with", f"Related things to send along, as in `a;b.c`: {', '.join(names)}.")] if names else []


def _parameter(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": {"type": "string"} | schema}
