"""The two forms of a list: a JSON array, and pages with the keys that the shop's clients read."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from django.core.cache.backends.locmem import LocMemCache
from django.db.models import Value
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from shared.api.limits.query_limits import limit_list_query
from shared.api.lists.relations import requested_names
from shared.api.query_params import MAX_LIMIT, MAX_PAGE, get_limit, get_offset, get_page
from shared.api.renderers import FastJSONRenderer

MAX_ARRAY_LENGTH = 1000
MAX_ARRAY_BYTES = 4 * 1024 * 1024
SIZES_PER_QUERY = 250  # rows whose size is read at once
TOTAL_HEADER = "X-Total-Count"
# Counting costs as much as reading. Above the first number `total` is at most ten seconds old, and above the second one
# a minimum; the next page is still found.
MAX_FRESH_COUNT, MAX_EXACT_COUNT = 1_000, 100_000
_counts = LocMemCache("counts", {"TIMEOUT": 10, "OPTIONS": {"MAX_ENTRIES": 1000}})  # in this process, by SQL
PAGE_PARAMETER = {
    "name": "page",
    "in": "query",
    "description": "Number of the page. An invalid number is page 1, and a page past the end is empty.",
    "schema": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 1, "example": 2},
}

OFFSET_PARAMETER = {
    "name": "offset",
    "in": "query",
    "description": "Number of rows to skip instead of `page`. The URL of the rest has it where a list ended at 4 MiB.",
    "schema": {"type": "integer", "minimum": 0, "maximum": MAX_PAGE, "example": 40},
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
    "total": _field(
        "integer",
        f"Number of rows; at most ten seconds old above {MAX_FRESH_COUNT}, and a minimum above {MAX_EXACT_COUNT}.",
        40,
    ),
}


class PagePagination(BasePagination):
    """Pages of `limit` rows, 15 unless a subclass sets another default.

    With `is_limited_by_size`, where rows have lists of their own, a page ends at 4 MiB. Then `next_page_url` has the
    rest, by `offset`. As of an array, no more is read than fits if the queryset has `with_response_size`.
    """

    default_limit = 15
    is_limited_by_size = False
    page: int
    limit: int
    total: int
    offset: int
    _taken: int  # rows of the list that this page has, if there are as many

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self._request = request
        self._path, self._prefix = _page_urls(request)
        self.page, self.limit = get_page(request), get_limit(request, default=self.default_limit)
        self.offset = (self.page - 1) * self.limit
        if self.is_limited_by_size and (offset := get_offset(request)):
            self.offset, self.page = offset, offset // self.limit + 1
        self._taken = self.limit
        with limit_list_query(request, first_row=self.offset, indexed=getattr(view, "indexed_parameters", ())):
            rows, self.total = self.read_rows(queryset, self.offset)
            if self.is_limited_by_size and (fitting := fitting_rows(rows, request, view)) != rows:
                rows, self._taken = fitting, len(fitting)
        return rows

    def read_rows(self, queryset: Any, offset: int) -> tuple[list[Any], int]:
        """Return the rows of the page, and the number of all."""
        count = _count_fitting(queryset, offset, self.limit) if self.is_limited_by_size else self.limit
        rows = list(_slice(queryset, offset, count + 1))  # one more shows that there is a next page
        total = _count_rows(queryset, offset, len(rows), is_last=0 < len(rows) <= count)
        self._taken = count
        return rows[:count], total

    def get_paginated_response(self, data: list[Any]) -> Response:
        last_page = max(1, -(-self.total // self.limit))
        count = count_fitting(data) if self.is_limited_by_size else len(data)
        next_url = self._next_url(count if count < len(data) else self._taken)
        data = data[:count]
        return Response(
            {
                "current_page": self.page,
                "data": data,
                "first_page_url": self._url(1),
                "from": self.offset + 1 if data else None,
                "last_page": last_page,
                "last_page_url": self._url(last_page),
                "links": list(self._links(last_page, next_url)),
                "next_page_url": next_url,
                "path": self._path,
                "per_page": self.limit,
                "prev_page_url": self._url(self.page - 1) if self.page > 1 else None,
                "to": self.offset + len(data) if data else None,
                "total": self.total,
            }
        )

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        properties = PAGE_FIELDS | {"data": {**schema, "description": "Rows of this page."}}
        properties = {name: properties[name] for name in PAGE_FIELDS}
        return {"type": "object", "properties": properties, "required": list(properties)}

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        parameters = [PAGE_PARAMETER, limit_parameter(self.default_limit)]
        return [*parameters, OFFSET_PARAMETER] if self.is_limited_by_size else parameters

    def _url(self, page: int) -> str:
        return f"{self._prefix}{page}"

    def _next_url(self, count: int) -> str | None:
        """Return the URL of the rows after these `count` ones, or None if there are none."""
        following = self.offset + count
        if following >= self.total:
            return None
        page, within_page = divmod(following, self.limit)
        if within_page:
            return f"{_page_urls(self._request, 'offset')[1]}{following}"
        return self._url(page + 1)

    def _links(self, last_page: int, next_url: str | None) -> Iterator[dict[str, Any]]:
        previous = self._url(self.page - 1) if self.page > 1 else None
        yield {"url": previous, "label": "&laquo; Previous", "active": False}
        for page in visible_pages(self.page, last_page):
            url = None if page is None else self._url(page)
            yield {"url": url, "label": "..." if page is None else str(page), "active": page == self.page}
        yield {"url": next_url, "label": "Next &raquo;", "active": False}


class ArrayPagination(BasePagination):
    """JSON array of up to 1,000 rows, or of `limit` rows, and of at most 4 MiB.

    The header `X-Total-Count` has the number of all rows. If there are more, a `Link` header with `rel="next"` has the
    URL of the rest (RFC 8288). Where rows have lists of their own, the queryset's `with_response_size` annotates
    `response_size`, an estimate of their bytes, so that no more is read than fits.
    """

    default_limit = MAX_ARRAY_LENGTH

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self._request, self._limit = request, get_limit(request, default=self.default_limit)
        self._offset = get_offset(request) or (get_page(request) - 1) * self._limit
        with limit_list_query(request, first_row=self._offset):
            count = _count_fitting(queryset, self._offset, self._limit)
            rows = list(_slice(queryset, self._offset, count + 1))
            self._total = _count_rows(queryset, self._offset, len(rows), is_last=0 < len(rows) <= count)
            return fitting_rows(rows[:count], request, view)

    def get_paginated_response(self, data: list[Any]) -> Response:
        count = count_fitting(data)
        headers = {TOTAL_HEADER: str(self._total)}
        if 0 < count < self._total - self._offset:
            headers["Link"] = f'<{self._next_url(count)}>; rel="next"'
        return Response(data[:count], headers=headers)

    def _next_url(self, count: int) -> str:
        """Return the URL of the rest: the next page, or the rows after these `count` ones if they end within a page."""
        page, within_page = divmod(self._offset + count, self._limit)
        if within_page:
            return f"{_page_urls(self._request, 'offset')[1]}{self._offset + count}"
        return f"{_page_urls(self._request)[1]}{page + 1}"

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return dict(schema)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [PAGE_PARAMETER, limit_parameter(self.default_limit), OFFSET_PARAMETER]


def _slice(queryset: Any, offset: int, count: int) -> Any:
    """Return `count` rows from `offset` on. Those before them are read by their keys, without what belongs to them."""
    if not offset:
        return queryset[:count]
    return queryset.filter(pk__in=queryset.values("pk")[offset : offset + count])


def _count_rows(queryset: Any, offset: int, found: int, *, is_last: bool) -> int:
    """Return the number of all rows, counted up to MAX_EXACT_COUNT. `found` of them begin at `offset`."""
    if is_last or (not offset and not found):
        return offset + found
    rows = queryset.order_by()
    counted: int = rows[: MAX_FRESH_COUNT + 1].count()
    if counted > MAX_FRESH_COUNT:
        key = blake2b(repr(rows.query.sql_with_params()).encode()).hexdigest()
        counted = _counts.get_or_set(key, rows[: MAX_EXACT_COUNT + 1].count)  # type: ignore[assignment]  # never None
    return max(counted, offset + found) if found else counted


def _count_fitting(queryset: Any, offset: int, limit: int) -> int:
    """Return how many rows from `offset` on fit into an array by their estimated size: `limit` at most, 1 at least."""
    if not hasattr(queryset, "with_response_size"):
        return limit
    sized = queryset.with_response_size()
    used = count = 0
    while count < limit:
        rows = _slice(sized, offset + count, min(SIZES_PER_QUERY, limit - count))
        page = list(rows.values_list("response_size", flat=True))
        for size in page:
            used += size
            if used > MAX_ARRAY_BYTES:
                return max(1, count)
            count += 1
        if len(page) < SIZES_PER_QUERY:
            break
    return limit


def fitting_rows(rows: list[Any], request: Request, view: Any) -> list[Any]:
    """Return the first rows that fit into an array with the relations that `with` names, 1 at least.

    Their sizes are those of the `relation_sizes` of the view's filters.
    """
    relation_sizes = getattr(getattr(view, "filterset_class", None), "relation_sizes", {})
    names = requested_names(request) & relation_sizes.keys()
    if not rows or not names:
        return rows
    found = type(rows[0])._base_manager.filter(pk__in=[row.pk for row in rows])
    sized = found.order_by().annotate(response_size=sum((relation_sizes[name] for name in names), Value(0)))
    sizes, used = dict(sized.values_list("pk", "response_size")), 0
    for position, row in enumerate(rows):
        used += sizes.get(row.pk, 0)
        if used > MAX_ARRAY_BYTES:
            return rows[: max(1, position)]
    return rows


def count_fitting(rows: Sequence[Any]) -> int:
    """Return how many of the rows fit into MAX_ARRAY_BYTES of JSON: 1 at least, if there are any."""
    renderer = FastJSONRenderer()
    if len(renderer.render(rows)) <= MAX_ARRAY_BYTES:
        return len(rows)
    used = 2  # brackets
    for position, row in enumerate(rows):
        used += len(renderer.render(row)) + 1
        if used > MAX_ARRAY_BYTES:
            return max(1, position)
    return len(rows)


def limit_parameter(default: int) -> dict[str, Any]:
    """Return the OpenAPI description of `limit`, whose default may be above its maximum."""
    schema = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "example": 20}
    description = f"Maximum number of rows; values over {MAX_LIMIT} count as {MAX_LIMIT}."
    if default <= MAX_LIMIT:
        schema["default"] = default
    else:
        description += f" Without it the array has up to {default} rows."
    return {"name": "limit", "in": "query", "description": description, "schema": schema}


def _page_urls(request: Request, parameter: str = "page") -> tuple[str, str]:
    """Return the URL of this list, and the prefix of its page URLs before the page number."""
    path = request.build_absolute_uri(request.path)
    query = request.query_params.copy()
    for name in ("page", "offset"):
        query.pop(name, None)
    return path, f"{path}?{query.urlencode()}&{parameter}=" if query else f"{path}?{parameter}="


def visible_pages(current: int, last: int) -> list[int | None]:
    """Return the page numbers to offer: the ends and three on each side of the current one, with None for a gap."""
    if last < 14:
        return list(range(1, last + 1))
    if current <= 7:
        return [*range(1, 11), None, last - 1, last]
    if current > last - 7:
        return [1, 2, None, *range(last - 9, last + 1)]
    return [1, 2, None, *range(current - 3, current + 4), None, last - 1, last]
