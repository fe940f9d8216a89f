"""Pages of search results."""

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from commerce.catalog.schema import ProductPagination


class SearchPagination(ProductPagination):
    """Pages whose body also says how the products were found, in `search`."""

    def get_paginated_response(self, data: list[Any]) -> Response:
        response = super().get_paginated_response(data)
        response.data["search"] = {"words": list(self.result.words), "semantic": self.result.is_semantic}
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
        },
        "semantic": {
            "type": "boolean",
            "description": "Whether products were also compared by meaning. False while the model server is away, and "
            "before the first products are embedded: then only words were compared.",
            "example": True,
        },
    },
    "required": ["words", "semantic"],
}
