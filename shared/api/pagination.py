"""The two forms of a list: a bare array, and pages with the keys that the shop's clients read."""

from collections.abc import Iterator, Mapping
from typing import Any

from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from shared.api.query import query_limit, query_page
from shared.api.read_limits import limited_read

LONGEST_ARRAY = 1000
# Counting costs as much as reading: past this many rows `total` says "at least", and the next page is still found.
COUNTED_EXACTLY = 100_000
PAGE_PARAMETER = {
    "name": "page",
    "in": "query",
    "description": "From 1; what is no page is the first. A page past the end is empty.",
    "schema": {"type": "integer", "default": 1},
}


class PagedList(BasePagination):
    """Pages of `limit` rows, 15 unless a subclass says otherwise."""

    default_limit = 15
    page: int
    limit: int
    total: int

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self._path, self._prefix = _addresses(request)
        self.page, self.limit = query_page(request), query_limit(request, default=self.default_limit)
        offset = (self.page - 1) * self.limit
        with limited_read(request, first_row=offset):
            rows = list(queryset[offset : offset + self.limit + 1])  # one more than asked for: is there a next page?
            self.total = offset + len(rows)
            if not rows or len(rows) > self.limit:
                counted = queryset.order_by()[: COUNTED_EXACTLY + 1].count() if offset or rows else 0
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
        integer, url = {"type": "integer"}, {"type": "string", "format": "uri"}
        maybe_integer, maybe_url = {"type": ["integer", "null"]}, {"type": ["string", "null"], "format": "uri"}
        link = {"url": maybe_url, "label": {"type": "string"}, "active": {"type": "boolean"}}
        total = integer | {"description": f"Exact up to {COUNTED_EXACTLY}; beyond, at least so many."}
        properties = {
            "current_page": integer,
            "data": schema,
            "first_page_url": url,
            "from": maybe_integer,
            "last_page": integer,
            "last_page_url": url,
            "links": {"type": "array", "items": {"type": "object", "properties": link, "required": list(link)}},
            "next_page_url": maybe_url,
            "path": url,
            "per_page": integer,
            "prev_page_url": maybe_url,
            "to": maybe_integer,
            "total": total,
        }
        return {"type": "object", "properties": properties, "required": list(properties)}

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [PAGE_PARAMETER, limit_parameter(self.default_limit)]

    def _url(self, page: int) -> str:
        return f"{self._prefix}{page}"

    def _links(self, last_page: int) -> Iterator[dict[str, Any]]:
        previous = self._url(self.page - 1) if self.page > 1 else None
        yield {"url": previous, "label": "&laquo; Previous", "active": False}
        for page in shown_pages(self.page, last_page):
            url = None if page is None else self._url(page)
            yield {"url": url, "label": "..." if page is None else str(page), "active": page == self.page}
        following = self._url(self.page + 1) if self.page < last_page else None
        yield {"url": following, "label": "Next &raquo;", "active": False}


class BareArray(BasePagination):
    """A JSON array: everything up to a thousand rows, or `limit` of them. Where there are more, a `Link` header with
    `rel="next"` has the address of the rest (RFC 8288)."""

    default_limit = LONGEST_ARRAY
    next_url: str | None

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        page, limit = query_page(request), query_limit(request, default=self.default_limit)
        offset = (page - 1) * limit
        with limited_read(request, first_row=offset):
            rows = list(queryset[offset : offset + limit + 1])
        self.next_url = f"{_addresses(request)[1]}{page + 1}" if len(rows) > limit else None
        return rows[:limit]

    def get_paginated_response(self, data: list[Any]) -> Response:
        return Response(data, headers={"Link": f'<{self.next_url}>; rel="next"'} if self.next_url else None)

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return dict(schema)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [PAGE_PARAMETER, limit_parameter(self.default_limit)]


def limit_parameter(default: int) -> dict[str, Any]:
    """How `limit` reads in OpenAPI."""
    schema = {"type": "integer", "minimum": 1, "default": default}
    return {"name": "limit", "in": "query", "description": "At most 100; more means 100.", "schema": schema}


def _addresses(request: Request) -> tuple[str, str]:
    """The address of this list, and what stands before the number in those of its pages."""
    path = request.build_absolute_uri(request.path)
    query = request.query_params.copy()
    query.pop("page", None)
    return path, f"{path}?{query.urlencode()}&page=" if query else f"{path}?page="


def shown_pages(current: int, last: int) -> list[int | None]:
    """The page numbers to offer, None for a gap: the ends, and three on each side of the current one."""
    if last < 14:
        return list(range(1, last + 1))
    if current <= 7:
        return [*range(1, 11), None, last - 1, last]
    if current > last - 7:
        return [1, 2, None, *range(last - 9, last + 1)]
    return [1, 2, None, *range(current - 3, current + 4), None, last - 1, last]
