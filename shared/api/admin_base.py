"""The base of admin pages that are as quick at ten million rows as at ten.

A list counts no more than it must, and a search reads indexes only: `search_fields` are columns with an index
(`db_index=True` or unique), plain or over relations, and what is typed is the beginning of one of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from django.contrib import admin
from django.core.paginator import Paginator
from django.db import connections, models
from django.db.models import Max, Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.text import slugify
from unfold.admin import ModelAdmin
from unfold.views import ChangeList

from shared.api.query_params import parse_integer

MAX_EXACT_COUNT = 10_000  # rows; of more, an unfiltered list shows an estimate, and a filtered one so many
MAX_SEARCH_RESULTS = 1_000  # rows a search field
MAX_SAMPLED_ROWS = 10_000  # rows, to find out what a filter can offer


class EstimatedCountPaginator(Paginator):  # type: ignore[type-arg]
    """Counts exactly up to MOST_COUNTED rows. Beyond, a whole table's size is what the database believes it to be, and
    a filtered list ends there: nobody turns a thousand pages, and counting them reads every row."""

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
    """Offers the languages of the newest rows: those of a million would be read row by row."""

    title = "language"
    parameter_name = "language"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        newest = model_admin.model._default_manager.order_by("-pk").values_list("language", flat=True)
        return [(language, language) for language in sorted(set(newest[:MAX_SAMPLED_ROWS]))]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        return queryset.filter(language=self.value()) if self.value() else queryset


class IndexedEmptyFieldListFilter(admin.EmptyFieldListFilter):
    """For a moment that few rows have, and a partial index of those: Django's own asks for `NOT (... IS NULL)`, for
    which SQLite reads every row."""

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any] | None":
        if self.lookup_val == "0":
            return queryset.filter(**{f"{self.field_path}__isnull": False})
        return super().queryset(request, queryset)


class LargeTableChangeList(ChangeList):
    """Sorts by what `sortable_by` names alone, whatever the address asks for."""

    def get_ordering_field(self, field_name: str) -> Any:
        return super().get_ordering_field(field_name) if field_name in self.sortable_by else None


class NoDeleteMixin:
    """Admin pages without deletion, for every user."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class LargeTableAdmin(ModelAdmin):
    """What such a list stands on. Name the relations shown in `list_select_related`, and choose them
    by `autocomplete_fields`: a drop-down of a million products is a page that never comes."""

    paginator = EstimatedCountPaginator
    show_full_result_count = False
    list_per_page = 50
    list_filter_submit = True
    sortable_by: ClassVar[Any] = ()  # columns with an index; by any other all rows would have to be sorted
    search_help_text = "The beginning of a name, or a whole number for an id"
    # Which rows a search over a relation is after, where only for those there is an index.
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
            ):  # first, as a planner that may join would rather read every row
                yield Q(**{f"{relation}__in": related}) & self.search_filters.get(path, Q())


def _matching_ids(model: type[models.Model], conditions: Iterable[Q]) -> set[Any]:
    """The ids of some rows that meet one of the conditions."""
    found: set[Any] = set()
    for condition in conditions:
        found.update(
            model._default_manager.filter(condition).order_by().values_list("pk", flat=True)[:MAX_SEARCH_RESULTS]
        )
    return found


def _prefix_conditions(field: Any, term: str) -> Iterator[Q]:
    """What a row meets whose column begins with what was typed, in one of the ways to write it."""
    if isinstance(field, models.SlugField):
        if slug := slugify(term):
            yield starts_with(field.name, slug)
    elif isinstance(field, models.CharField):
        for spelling in {term, term.lower(), term.upper(), term.capitalize(), term.title()}:
            yield starts_with(field.name, spelling)


def starts_with(path: str, text: str) -> Q:
    """Rows whose column begins with `text`, by the column's index."""
    if connections["default"].vendor == "postgresql":
        return Q(**{f"{path}__startswith": text})
    # SQLite's LIKE ignores case and so its indexes, which are in the order of code points.
    return Q(**{f"{path}__gte": text, f"{path}__lt": f"{text}\U0010ffff"})


def _related_model(model: type[models.Model], relation: str) -> type[models.Model]:
    """The model to which a path such as `order__customer` leads; of an empty one the model itself."""
    for name in filter(None, relation.split("__")):
        model = model._meta.get_field(name).related_model  # type: ignore[assignment]
    return model
