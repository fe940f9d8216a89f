"""Base classes of admin pages that stay fast with millions of rows.

A list counts only part of a large table, and a search reads indexes only. `search_fields` are indexed columns
(`db_index=True` or unique), also over relations; a search term is the beginning of a value.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from django.contrib import admin
from django.core.paginator import Paginator
from django.db import connections, models
from django.db.models import Max, Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from unfold.admin import ModelAdmin
from unfold.views import ChangeList

from shared.api.query_params import parse_integer
from shared.api.slugs import SlugField, make_slug

MAX_EXACT_COUNT = 10_000  # rows; above, an unfiltered list shows an estimate and a filtered one this number
MAX_SEARCH_RESULTS = 1_000  # rows per search field
MAX_SAMPLED_ROWS = 10_000  # rows that are read for the choices of a filter


class EstimatedCountPaginator(Paginator):  # type: ignore[type-arg]
    """Paginator that counts exactly up to MAX_EXACT_COUNT rows.

    Above that, it shows the database's estimate for a whole table, and ends a filtered list there: counting the rest
    would read every row.
    """

    @cached_property
    def count(self) -> int:
        if not isinstance(self.object_list, QuerySet):
            return len(self.object_list)
        rows = self.object_list.order_by()
        counted = rows[: MAX_EXACT_COUNT + 1].count()
        if counted <= MAX_EXACT_COUNT or rows.query.where:
            return counted
        return max(counted, _estimated_size(rows))


def _estimated_size(rows: "QuerySet[Any]") -> int:
    connection = connections[rows.db]
    if connection.vendor != "postgresql":
        return int(rows.aggregate(last=Max("pk"))["last"] or 0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", [rows.model._meta.db_table])
        return int(cursor.fetchone()[0])


class LanguageListFilter(admin.SimpleListFilter):
    """Filter by language that offers the languages of the newest rows, since all rows would be read one by one."""

    title = "language"
    parameter_name = "language"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        newest = model_admin.model._default_manager.order_by("-pk").values_list("language", flat=True)
        return [(language, language) for language in sorted(set(newest[:MAX_SAMPLED_ROWS]))]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        return queryset.filter(language=self.value()) if self.value() else queryset


class IndexedEmptyFieldListFilter(admin.EmptyFieldListFilter):
    """Filter of rows with an optional time that few rows have and a partial index covers.

    Django's own filter uses `NOT (... IS NULL)`, for which SQLite reads every row.
    """

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any] | None":
        if self.lookup_val == "0":
            return queryset.filter(**{f"{self.field_path}__isnull": False})
        return super().queryset(request, queryset)


class LargeTableChangeList(ChangeList):
    """Change list that sorts only by the columns of `sortable_by`, whatever the URL says."""

    def get_ordering_field(self, field_name: str) -> Any:
        return super().get_ordering_field(field_name) if field_name in self.sortable_by else None


class NoDeleteMixin:
    """Admin pages without deletion, for every user."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdminMixin(NoDeleteMixin):
    """Admin pages and inlines without forms, for models that only services write."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class LargeTableAdmin(ModelAdmin):
    """Base class of admin pages for large tables.

    List the displayed relations in `list_select_related` and choose them through `autocomplete_fields`: a drop-down of
    a million products never finishes loading.
    """

    paginator = EstimatedCountPaginator
    show_full_result_count = False
    list_per_page = 50
    list_filter_submit = True
    sortable_by: ClassVar[Any] = ()  # indexed columns; any other would sort all rows
    search_help_text = "Beginning of a name, or an id"
    # Conditions on the rows of a search over a relation, if only those rows have an index.
    search_filters: ClassVar[Mapping[str, Q]] = {}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return LargeTableChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[Any]", search_term: str
    ) -> "tuple[QuerySet[Any], bool]":
        term = search_term.strip().replace("\x00", "")
        if not term or not self.search_fields:
            return queryset, False
        return queryset.filter(pk__in=_matching_ids(self.model, self._conditions(term))), False

    def _conditions(self, term: str) -> Iterator[Q]:
        if (number := parse_integer(term)) is not None:
            yield Q(pk=number)
        for path in map(str, self.search_fields):
            relation, _, name = path.rpartition("__")
            model = _related_model(self.model, relation)
            beginnings = _prefix_conditions(model._meta.get_field(name), term)
            if not relation:
                yield from beginnings
            elif related := _matching_ids(
                model, beginnings
            ):  # in a query of its own: joined, the planner prefers to read every row
                yield Q(**{f"{relation}__in": related}) & self.search_filters.get(path, Q())


def _matching_ids(model: type[models.Model], conditions: Iterable[Q]) -> set[Any]:
    """Return the ids of some rows that meet one of the conditions."""
    found: set[Any] = set()
    for condition in conditions:
        found.update(
            model._default_manager.filter(condition).order_by().values_list("pk", flat=True)[:MAX_SEARCH_RESULTS]
        )
    return found


def _prefix_conditions(field: Any, term: str) -> Iterator[Q]:
    """Return conditions on a column that begins with the search term, one for each way to write it."""
    if isinstance(field, SlugField):
        if slug := make_slug(term):
            yield starts_with(field.name, slug)
    elif isinstance(field, models.CharField):
        for spelling in {term, term.lower(), term.upper(), term.capitalize(), term.title()}:
            yield starts_with(field.name, spelling)


def starts_with(path: str, text: str) -> Q:
    """Return a condition on a column that begins with `text` and can use the column's index."""
    if connections["default"].vendor == "postgresql":
        return Q(**{f"{path}__startswith": text})
    # SQLite's LIKE ignores case, so it cannot use an index, which is in the order of code points.
    return Q(**{f"{path}__gte": text, f"{path}__lt": f"{text}\U0010ffff"})


def _related_model(model: type[models.Model], relation: str) -> type[models.Model]:
    """Return the model at a path such as `order__customer`; the model itself for an empty path."""
    for name in filter(None, relation.split("__")):
        model = model._meta.get_field(name).related_model  # type: ignore[assignment]
    return model
