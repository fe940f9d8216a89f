"""Pages of search results."""

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from commerce.catalog.search.services import search_result_of
from shared.api.lists.pagination import PagePagination


class SearchPagination(PagePagination):
    """Pages whose body also says how the products were found, in `search`."""

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any]:
        self._result = search_result_of(request)
        return super().paginate_queryset(queryset, request, view)

    def get_paginated_response(self, data: list[Any]) -> Response:
        response = super().get_paginated_response(data)
        response.data["search"] = {"words": list(self._result.words)}
        return response

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        page = super().get_paginated_response_schema(schema)
        page["properties"] |= {"search": SEARCH_SCHEMA}
        return page | {"required": [*page["required"], "search"]}


SEARCH_SCHEMA = {
    "type": "object",
    "description": "How the products were found.",
    "properties": {
        "words": {
            "type": "array",
            "description": "Words that were searched for, with the corrections of misspelled ones.",
            "items": {"type": "string"},
            "example": ["ketle", "kettle"],
        }
    },
    "required": ["words"],
}
