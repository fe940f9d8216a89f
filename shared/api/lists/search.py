"""Conditions for `search=field:value;field:value`. A resource's allow-list maps each name to a model path."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache, partial, reduce
from typing import Any, TypeAlias

from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db import models
from django.db.models import Model, Q

from shared.api.errors import ValidationFailed
from shared.api.money import EXPONENTS, decimal_places
from shared.api.query_params import BOOLEANS, parse_integer
from shared.api.slugs import SlugField

MAX_TERMS = 50
MAX_SEARCH_LENGTH = 1000  # characters; databases limit the length of a pattern and the depth of a condition
JOINS = {"and": operator.and_, "or": operator.or_}
COMPARISONS = {"like": "icontains", "=": "exact", "in": "in", "between": "range"}
_NOTHING = Q(pk__in=())
_AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?\Z", re.ASCII)


@dataclass(frozen=True)
class MoneyColumn:
    """Searchable column of minor units, whose values are sent in major units of the row's currency."""

    path: str
    currency_path: str = "currency"


SearchField: TypeAlias = "str | MoneyColumn"


@dataclass(frozen=True)
class SearchColumn:
    """Searchable column: how a value is parsed (None: no row can have it) and how it is compared."""

    path: str
    read: Callable[[str], Any]
    comparison: str
    takes_like: bool
    takes_range: bool
    is_many: bool  # over a to-many relation


def build_search_condition(model: type[Model], fields: Mapping[str, SearchField], query: Mapping[str, str]) -> Q:
    """Return the condition for `search`, `searchJoin` and `searchFields`.

    Names outside `fields` and empty values are ignored; a value that a column cannot have matches no row. A term
    without a name is looked for in every text column. Raise ValidationFailed for a search that is too long or
    has too many terms, or an unknown join or comparison.
    """
    text = query.get("search", "")
    if len(text) > MAX_SEARCH_LENGTH:
        raise ValidationFailed({"search": [f"Send at most {MAX_SEARCH_LENGTH} characters."]})
    if text.count(";") >= MAX_TERMS and len(list(_terms(text))) > MAX_TERMS:
        raise ValidationFailed({"search": [f"Send at most {MAX_TERMS} terms."]})
    join = query.get("searchJoin", "").lower() or "or"
    if join not in JOINS:
        raise ValidationFailed({"searchJoin": ["Send and, or or."]})
    comparisons = _comparisons(query.get("searchFields", ""))
    terms = (
        _term(model, fields[name], value, comparisons.get(name)) if name else _bare_term(model, fields, value)
        for name, value in _terms(text)
        if name in fields or not name
    )
    return reduce(JOINS[join], terms, Q())


def searched_names(text: str) -> set[str]:
    """Return the names of the terms in a `search`; a term without a name has the name ""."""
    return {name for name, _ in _terms(text[:MAX_SEARCH_LENGTH])}


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
    is_key = isinstance(field, models.ForeignKey) or field.primary_key
    while isinstance(field, models.ForeignKey):
        field = field.target_field
    column = partial(SearchColumn, path, is_many=is_many)
    match field:
        case models.BooleanField():
            return column(lambda value: BOOLEANS.get(value.lower()), "exact", takes_like=False, takes_range=False)
        case models.IntegerField():
            return column(parse_integer, "exact", takes_like=False, takes_range=not is_key)
        case models.CharField() | models.TextField():
            is_name = bool(field.choices) or isinstance(field, SlugField)
            return column(_storable, "exact" if is_name else "icontains", takes_like=True, takes_range=False)
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
        if name and comparison.lower() not in COMPARISONS:
            raise ValidationFailed({"searchFields": ["Compare by like, =, in or between."]})
        comparisons[name] = COMPARISONS.get(comparison.lower(), "")
    return comparisons


def _terms(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each term; a term without a colon has the name ""."""
    for part in text.split(";"):
        name, colon, value = part.partition(":")
        if not colon:
            name, value = "", part
        if value.strip() and bool(colon) == bool(name.strip()):
            yield name.strip(), value.strip()


def _bare_term(model: type[Model], fields: Mapping[str, SearchField], text: str) -> Q:
    columns = [search_column(model, path) for path in fields.values() if isinstance(path, str)]
    texts = [column for column in columns if column.comparison == "icontains" and not column.is_many]
    terms = [_term(model, column.path, text, None) for column in texts]
    return reduce(operator.or_, terms, Q())


def _term(model: type[Model], field: SearchField, text: str, comparison: str | None) -> Q:
    if isinstance(field, MoneyColumn):
        return _money_term(field, text)
    column = search_column(model, field)
    condition = _condition(column, text, comparison)
    if column.is_many and condition != _NOTHING:  # a join would repeat the row for each match
        return Q(pk__in=model._base_manager.filter(condition).values("pk"))
    return condition


def _condition(column: SearchColumn, text: str, comparison: str | None) -> Q:
    if column.takes_range and "," in text and comparison != "in":
        return _range(column.path, [column.read(bound.strip()) if bound.strip() else "" for bound in text.split(",")])
    if comparison == "in":
        values = [column.read(value.strip()) for value in text.split(",")]
        return Q(**{f"{column.path}__in": [value for value in values if value is not None]})
    value = column.read(text)
    if value is None:
        return _NOTHING
    wanted = comparison if comparison in ("icontains", "exact") and column.takes_like else column.comparison
    return Q(**{f"{column.path}__{wanted}": value})


def _range(path: str, bounds: list[Any]) -> Q:
    """Return the condition of two bounds, of which "" is open and None is invalid."""
    if len(bounds) != 2 or None in bounds:
        return _NOTHING
    lowest, highest = bounds
    at_least = Q() if lowest == "" else Q(**{f"{path}__gte": lowest})
    return at_least if highest == "" else at_least & Q(**{f"{path}__lte": highest})


def _money_term(field: MoneyColumn, text: str) -> Q:
    """Return the condition of an amount, or of a range `10,50`, in the minor units of each currency."""
    bounds = [bound.strip() for bound in text.split(",")]
    bounds = bounds * 2 if len(bounds) == 1 else bounds
    if len(bounds) != 2 or not any(bounds) or not all(_AMOUNT.match(bound) for bound in bounds if bound):
        return _NOTHING
    lowest, highest = (Decimal(bound) if bound else None for bound in bounds)
    condition = _NOTHING
    for places in sorted({2, *EXPONENTS.values()}):
        condition |= _of_currencies(field.currency_path, places) & _range(
            field.path,
            [_minor(lowest, places, ROUND_CEILING), _minor(highest, places, ROUND_FLOOR)],
        )
    return condition


def _of_currencies(path: str, places: int) -> Q:
    """Return the condition that a row's currency has this number of decimal places."""
    codes = [code for code in EXPONENTS if decimal_places(code) == places]
    return Q(**{f"{path}__in": codes}) if codes else ~Q(**{f"{path}__in": list(EXPONENTS)})


def _minor(amount: Decimal | None, places: int, rounding: str) -> int | str:
    return "" if amount is None else int(amount.scaleb(places).to_integral_value(rounding))


def _storable(value: str) -> str | None:
    return None if "\x00" in value else value
