"""The two forms of a list: a JSON array, and pages with the keys that the shop's clients read."""

from collections.abc import Iterator, Mapping
from typing import Any

from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from shared.api.limits.query_limits import limit_list_query
from shared.api.query_params import MAX_LIMIT, MAX_PAGE, get_limit, get_page

MAX_ARRAY_LENGTH = 1000
# Counting costs as much as reading: above this number `total` is a minimum, and the next page is still found.
MAX_EXACT_COUNT = 100_000
PAGE_PARAMETER = {
    "name": "page",
    "in": "query",
    "description": "Number of the page. An invalid number is page 1, and a page past the end is empty.",
    "schema": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 1, "example": 2},
}


def _field(type_: str, description: str, example: Any, *, is_nullable: bool = False) -> dict[str, Any]:
    kind = {"type": "string", "format": "uri"} if type_ == "url" else {"type": type_}
    if type_ == "integer":
        kind["minimum"] = 0  # type: ignore[assignment]
    if is_nullable:
        kind["type"] = [kind["type"], "null"]  # type: ignore[assignment]
    return {**kind, "description": description, "example": example}


_PAGE_URL = "https://shop.example/api/products?page="
PAGE_LINK_FIELDS = {
    "url": _field("url", "URL of the page, or null.", f"{_PAGE_URL}2", is_nullable=True),
    "label": _field("string", "Text of the link.", "2"),
    "active": _field("boolean", "Whether this is the present page.", False),
}
PAGE_FIELDS: dict[str, Any] = {
    "current_page": _field("integer", "Number of this page.", 1),
    "data": {},
    "first_page_url": _field("url", "URL of the first page.", f"{_PAGE_URL}1"),
    "from": _field("integer", "Position of the first row; null on an empty page.", 1, is_nullable=True),
    "last_page": _field("integer", "Number of the last page.", 3),
    "last_page_url": _field("url", "URL of the last page.", f"{_PAGE_URL}3"),
    "links": {
        "type": "array",
        "description": "Links of a pager: previous, page numbers, next.",
        "items": {"type": "object", "properties": PAGE_LINK_FIELDS, "required": list(PAGE_LINK_FIELDS)},
    },
    "next_page_url": _field("url", "URL of the next page, or null.", f"{_PAGE_URL}2", is_nullable=True),
    "path": _field("url", "URL of the list without its query.", "https://shop.example/api/products"),
    "per_page": _field("integer", "Maximum number of rows on a page.", 15),
    "prev_page_url": _field("url", "URL of the previous page, or null.", f"{_PAGE_URL}1", is_nullable=True),
    "to": _field("integer", "Position of the last row; null on an empty page.", 15, is_nullable=True),
    "total": _field("integer", f"Number of rows; exact up to {MAX_EXACT_COUNT}, else at least so many.", 40),
}


class PagePagination(BasePagination):
    """Pages of `limit` rows, 15 unless a subclass sets another default."""

    default_limit = 15
    page: int
    limit: int
    total: int

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self._path, self._prefix = _page_urls(request)
        self.page, self.limit = get_page(request), get_limit(request, default=self.default_limit)
        offset = (self.page - 1) * self.limit
        with limit_list_query(request, first_row=offset):
            rows = list(queryset[offset : offset + self.limit + 1])  # one more shows that there is a next page
            self.total = offset + len(rows)
            if not rows or len(rows) > self.limit:
                counted = queryset.order_by()[: MAX_EXACT_COUNT + 1].count() if offset or rows else 0
                self.total = max(counted, self.total) if rows else counted
        return rows[: self.limit]

    def get_paginated_response(self, data: list[Any]) -> Response:
        last_page = max(1, -(-self.total // self.limit))
        first_row = (self.page - 1) * self.limit + 1
        return Response(
            {
                "current_page": self.page,
                "data": data,
                "first_page_url": self._url(1),
                "from": first_row if data else None,
                "last_page": last_page,
                "last_page_url": self._url(last_page),
                "links": list(self._links(last_page)),
                "next_page_url": self._url(self.page + 1) if self.page < last_page else None,
                "path": self._path,
                "per_page": self.limit,
                "prev_page_url": self._url(self.page - 1) if self.page > 1 else None,
                "to": first_row + len(data) - 1 if data else None,
                "total": self.total,
            }
        )

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        properties = PAGE_FIELDS | {"data": {**schema, "description": "Rows of this page."}}
        properties = {name: properties[name] for name in PAGE_FIELDS}
        return {"type": "object", "properties": properties, "required": list(properties)}

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [PAGE_PARAMETER, limit_parameter(self.default_limit)]

    def _url(self, page: int) -> str:
        return f"{self._prefix}{page}"

    def _links(self, last_page: int) -> Iterator[dict[str, Any]]:
        previous = self._url(self.page - 1) if self.page > 1 else None
        yield {"url": previous, "label": "&laquo; Previous", "active": False}
        for page in visible_pages(self.page, last_page):
            url = None if page is None else self._url(page)
            yield {"url": url, "label": "..." if page is None else str(page), "active": page == self.page}
        following = self._url(self.page + 1) if self.page < last_page else None
        yield {"url": following, "label": "Next &raquo;", "active": False}


class ArrayPagination(BasePagination):
    """JSON array of up to 1,000 rows, or of `limit` rows.

    If there are more, a `Link` header with `rel="next"` has the URL of the rest (RFC 8288).
    """

    default_limit = MAX_ARRAY_LENGTH
    next_url: str | None

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        page, limit = get_page(request), get_limit(request, default=self.default_limit)
        offset = (page - 1) * limit
        with limit_list_query(request, first_row=offset):
            rows = list(queryset[offset : offset + limit + 1])
        self.next_url = f"{_page_urls(request)[1]}{page + 1}" if len(rows) > limit else None
        return rows[:limit]

    def get_paginated_response(self, data: list[Any]) -> Response:
        return Response(data, headers={"Link": f'<{self.next_url}>; rel="next"'} if self.next_url else None)

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return dict(schema)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [PAGE_PARAMETER, limit_parameter(self.default_limit)]


def limit_parameter(default: int) -> dict[str, Any]:
    """Return the OpenAPI description of `limit`, whose default may be above its maximum."""
    schema = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "example": 20}
    description = f"Maximum number of rows; values over {MAX_LIMIT} count as {MAX_LIMIT}."
    if default <= MAX_LIMIT:
        schema["default"] = default
    else:
        description += f" Without it the array has up to {default} rows."
    return {"name": "limit", "in": "query", "description": description, "schema": schema}


def _page_urls(request: Request) -> tuple[str, str]:
    """Return the URL of this list, and the prefix of its page URLs before the page number."""
    path = request.build_absolute_uri(request.path)
    query = request.query_params.copy()
    query.pop("page", None)
    return path, f"{path}?{query.urlencode()}&page=" if query else f"{path}?page="


def visible_pages(current: int, last: int) -> list[int | None]:
    """Return the page numbers to offer: the ends and three on each side of the current one, with None for a gap."""
    if last < 14:
        return list(range(1, last + 1))
    if current <= 7:
        return [*range(1, 11), None, last - 1, last]
    if current > last - 7:
        return [1, 2, None, *range(last - 9, last + 1)]
    return [1, 2, None, *range(current - 3, current + 4), None, last - 1, last]
