"""Query parameters of every list: `search`, `searchJoin`, `searchFields`, `orderBy`, `sortedBy`, `with`, `language`,
and a resource's own filters.

Each resource lists what it allows in a subclass of ListFilterSet; other names are ignored.

    class ProductFilters(ListFilterSet):
        search_fields = {"name": "name", "shop_id": "shop_id", "type.slug": "type__slug"}
        order_fields = {"created_at": "created_at", "price": "price"}
        relations = {"type": "type", "shop": "shop", "shop.owner": "shop__owner"}
        shop_id = IntegerFilter()
        language = LanguageFilter()
"""

from collections.abc import Mapping
from copy import copy, deepcopy
from functools import cache
from typing import Any, ClassVar

from django import forms
from django.core.validators import EMPTY_VALUES
from django.db.models import F, QuerySet
from django.db.models.expressions import Combinable
from django.http import QueryDict
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field
from rest_framework.request import Request
from rest_framework.views import APIView

from shared.api.errors import ValidationFailed
from shared.api.lists.relations import Relation, validate_relations
from shared.api.lists.search import SearchField, build_search_condition, is_nullable
from shared.api.query_params import BOOLEANS, DEFAULT_LANGUAGE, MAX_INTEGER, MAX_LANGUAGE_LENGTH, parse_integer


class IntegerFormField(forms.Field):
    def to_python(self, value: Any) -> int | None:
        if value in EMPTY_VALUES:
            return None
        number = parse_integer(value)
        if number is None:
            raise forms.ValidationError("Send a whole number.")
        return number


class BooleanFormField(forms.Field):
    def to_python(self, value: Any) -> bool | None:
        if value in EMPTY_VALUES:
            return None
        if str(value).lower() not in BOOLEANS:
            raise forms.ValidationError("Send 1 or 0.")
        return BOOLEANS[str(value).lower()]


@extend_schema_field({"type": "boolean", "example": True})
class BooleanFilter(filters.CharFilter):
    """Filter `name=1`: rows whose column is true, or false for `0`. `default` applies where the query has no value."""

    field_class = BooleanFormField

    def __init__(self, *args: Any, default: bool | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.default = default

    def filter(self, qs: QuerySet[Any], value: Any) -> Any:
        value = self.default if value in EMPTY_VALUES else value
        return qs if value is None else qs.filter(**{str(self.field_name): value})


@extend_schema_field({"type": "integer", "minimum": -MAX_INTEGER, "maximum": MAX_INTEGER, "example": 7})
class IntegerFilter(filters.NumberFilter):
    """Filter `name=5`: ASCII digits that fit into 64 bits; anything else is a validation error."""

    field_class = IntegerFormField

    def get_max_validator(self) -> None:
        return None


@extend_schema_field({"type": "string", "maxLength": MAX_LANGUAGE_LENGTH, "default": DEFAULT_LANGUAGE, "example": "de"})
class LanguageFilter(filters.CharFilter):
    """Filter `language=de`: rows in one language, English by default."""

    def __init__(self, field_name: str = "language", **kwargs: Any) -> None:
        super().__init__(field_name, max_length=MAX_LANGUAGE_LENGTH, help_text="Code of the language.", **kwargs)

    def filter(self, qs: QuerySet[Any], value: str) -> Any:
        return super().filter(qs, value or DEFAULT_LANGUAGE)


class ListFilterSet(filters.FilterSet):
    """Allow-lists of a resource: the model path of each name in the query string.

    A value of `search_fields` may be a MoneyColumn, and one of `relations` INCLUDED, a LoadedRelation, or a function
    that returns a Prefetch for a user. Where relations have many records, `relation_sizes` has about how many bytes
    those of a row take, in JSON and in memory: lists that end at 4 MiB read no more rows than fit.
    """

    search_fields: ClassVar[Mapping[str, SearchField]] = {}
    order_fields: ClassVar[Mapping[str, str]] = {}
    relations: ClassVar[Mapping[str, Relation]] = {}
    relation_sizes: ClassVar[Mapping[str, Combinable]] = {}

    def __init__(
        self, data: Any = None, queryset: QuerySet[Any] | None = None, *, request: Any = None, prefix: str | None = None
    ) -> None:
        """Copy the filters, but not what is in them: the deep copies of django-filter take as long as a short query."""
        self.queryset = self._meta.model._default_manager.all() if queryset is None else queryset
        self.is_bound, self.data = data is not None, data or QueryDict()
        self.request, self.form_prefix = request, prefix
        self.filters = {name: copy(filter_) for name, filter_ in self.base_filters.items()}
        for filter_ in self.filters.values():
            filter_.model, filter_.parent = self.queryset.model, self

    def get_form_class(self) -> Any:
        return _form_class(type(self))  # type: ignore[arg-type]

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        queryset = super().filter_queryset(queryset)
        queryset = queryset.filter(build_search_condition(queryset.model, self.search_fields, self.data))
        return self._order(queryset)

    def _order(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        name, direction = self.data.get("orderBy", ""), self.data.get("sortedBy", "").lower() or "asc"
        if direction not in ("asc", "desc"):
            raise ValidationFailed({"sortedBy": ["Send asc or desc."]})
        if name not in self.order_fields:
            return queryset
        path, is_descending = self.order_fields[name], direction == "desc"
        # Databases disagree about the order of NULL: here it is always last.
        nulls_last = True if is_nullable(queryset.model, path) else None
        column = F(path).desc(nulls_last=nulls_last) if is_descending else F(path).asc(nulls_last=nulls_last)
        return queryset.order_by(column, "-pk" if is_descending else "pk")


@cache
def _form_class(filters_class: type[ListFilterSet]) -> Any:
    """Return the form that checks the parameters, which django-filter would make for each request."""
    fields = {name: deepcopy(filter_).field for name, filter_ in filters_class.base_filters.items()}
    return type(f"{filters_class.__name__}Form", (filters_class._meta.form,), fields)


class ListFilterBackend(filters.DjangoFilterBackend):
    """Filter and order lists by the view's ListFilterSet. RelationsSerializer fetches the relations of `with`."""

    filterset_base = ListFilterSet

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: APIView) -> QuerySet[Any]:
        if getattr(view, "filterset_class", None) is None:
            return queryset
        validate_relations(request)
        return queryset if is_detail_view(view) else self._filter(request, queryset, view)

    def _filter(self, request: Request, queryset: QuerySet[Any], view: APIView) -> QuerySet[Any]:
        if request.query_params:
            filtered: QuerySet[Any] = super().filter_queryset(request, queryset, view)
            return filtered
        # No parameters: only the defaults apply, and building the form is expensive.
        for default in view.filterset_class.base_filters.values():  # type: ignore[attr-defined]
            queryset = default.filter(queryset, "")
        return queryset


def is_detail_view(view: Any) -> bool:
    """Return whether the view returns one object, named in its path."""
    return (view.lookup_url_kwarg or view.lookup_field) in view.kwargs
