"""Conditions for `search=field:value;field:value`. A resource's allow-list maps each name to a model path."""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db import models
from django.db.models import Model, Q

from shared.api.errors import ValidationFailed
from shared.api.query_params import BOOLEANS, parse_integer

MAX_SEARCH_LENGTH = 1000  # characters; databases limit the length of a pattern and the depth of a condition
JOINS = {"and": operator.and_, "or": operator.or_}
COMPARISONS = {"like": "icontains", "=": "exact"}
_NOTHING = Q(pk__in=())


@dataclass(frozen=True)
class SearchColumn:
    """Searchable column: how a value is parsed (None: no row can have it) and how it is compared."""

    path: str
    read: Callable[[str], Any]
    comparison: str
    takes_like: bool
    is_many: bool  # over a to-many relation


def build_search_condition(model: type[Model], fields: Mapping[str, str], query: Mapping[str, str]) -> Q:
    """Return the condition for `search`, `searchJoin` and `searchFields`.

    Names outside `fields` and empty values are ignored; a value that a column cannot have matches no row. Raise
    ValidationFailed for a search that is too long, or an unknown join or comparison.
    """
    text = query.get("search", "")
    if len(text) > MAX_SEARCH_LENGTH:
        raise ValidationFailed({"search": [f"Send at most {MAX_SEARCH_LENGTH} characters."]})
    join = query.get("searchJoin", "").lower() or "or"
    if join not in JOINS:
        raise ValidationFailed({"searchJoin": ["Send and, or or."]})
    comparisons = _comparisons(query.get("searchFields", ""))
    terms = (
        _term(model, search_column(model, fields[name]), value, comparisons.get(name))
        for name, value in _terms(text)
        if name in fields
    )
    return reduce(JOINS[join], terms, Q())


@cache
def search_column(model: type[Model], path: str) -> SearchColumn:
    """Return the column at a path such as `type__slug`. Raise ImproperlyConfigured if its type is not searchable."""
    is_many, current = False, model
    *relations, last = path.split("__")
    for relation in relations:
        step: Any = current._meta.get_field(relation)
        is_many = is_many or step.many_to_many or step.one_to_many
        current = step.related_model
    field: Any = current._meta.get_field(last)
    while isinstance(field, models.ForeignKey):
        field = field.target_field
    match field:
        case models.BooleanField():
            return SearchColumn(path, lambda value: BOOLEANS.get(value.lower()), "exact", False, is_many)
        case models.IntegerField():
            return SearchColumn(path, parse_integer, "exact", False, is_many)
        case models.CharField() | models.TextField():
            is_name = bool(field.choices) or isinstance(field, models.SlugField)
            return SearchColumn(path, _storable, "exact" if is_name else "icontains", True, is_many)
    raise ImproperlyConfigured(f"{model.__name__}.{path} is no text, whole number or boolean: it cannot be searched.")


def is_nullable(model: type[Model], path: str) -> bool:
    """Return whether `path` may be null for a row; False for an annotation."""
    current: Any = model
    for name in path.split("__"):
        try:
            field = current._meta.get_field(name)
        except FieldDoesNotExist:
            return False
        if field.null:
            return True
        current = field.related_model
    return False


def _comparisons(text: str) -> dict[str, str]:
    comparisons = {}
    for name, comparison in _terms(text[:MAX_SEARCH_LENGTH]):
        if comparison.lower() not in COMPARISONS:
            raise ValidationFailed({"searchFields": ["Compare by like or by =."]})
        comparisons[name] = COMPARISONS[comparison.lower()]
    return comparisons


def _terms(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(";"):
        name, _, value = part.partition(":")
        if value.strip():
            yield name.strip(), value.strip()


def _term(model: type[Model], column: SearchColumn, text: str, comparison: str | None) -> Q:
    value = column.read(text)
    if value is None:
        return _NOTHING
    wanted = comparison if comparison and column.takes_like else column.comparison
    condition = Q(**{f"{column.path}__{wanted}": value})
    if column.is_many:  # a join would repeat the row for each match
        return Q(pk__in=model._base_manager.filter(condition).values("pk"))
    return condition


def _storable(value: str) -> str | None:
    return None if "\x00" in value else value
