"""The base of the shop's admin pages: as quick at ten million rows as at ten, and money in major units.

A list counts no more than it must, and a search reads indexes only: `search_fields` are columns with an index
(`db_index=True` or unique), plain or over relations, and what is typed is the beginning of one of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.paginator import Paginator
from django.db import connections, models
from django.db.models import Max, Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.text import slugify
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminDecimalFieldWidget

from shared.api.money import LARGEST_PRICE, InvalidMoney, to_major, to_minor
from shared.api.query import whole_number

MOST_COUNTED = 10_000  # rows; of more, an unfiltered list shows an estimate, and a filtered one so many
MOST_FOUND = 1_000  # rows a search field


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts exactly up to MOST_COUNTED rows. Beyond, a whole table's size is what the database believes it to be, and
    a filtered list ends there: nobody turns a thousand pages, and counting them reads every row."""

    @cached_property
    def count(self) -> int:
        if not isinstance(self.object_list, QuerySet):
            return len(self.object_list)
        rows = self.object_list.order_by()
        counted = rows[: MOST_COUNTED + 1].count()
        if counted <= MOST_COUNTED or rows.query.where:
            return counted
        return max(counted, _estimated_size(rows))


def _estimated_size(rows: "QuerySet[Any]") -> int:
    connection = connections[rows.db]
    if connection.vendor != "postgresql":
        return int(rows.aggregate(last=Max("pk"))["last"] or 0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", [rows.model._meta.db_table])
        return int(cursor.fetchone()[0])


class FastAdmin(ModelAdmin):
    """What every list of the shop's admin stands on. Name the relations shown in `list_select_related`, and choose them
    by `autocomplete_fields`: a drop-down of a million products is a page that never comes."""

    paginator = BoundedPaginator
    show_full_result_count = False
    list_per_page = 50
    list_filter_submit = True
    search_help_text = "The beginning of a name, or a whole number for an id"
    # Which rows a search over a relation is after, where only for those there is an index.
    search_within: ClassVar[Mapping[str, Q]] = {}

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[Any]", search_term: str
    ) -> "tuple[QuerySet[Any], bool]":
        term = search_term.strip().replace("\x00", "")
        if not term or not self.search_fields:
            return queryset, False
        return queryset.filter(pk__in=_found(self.model, self._conditions(term))), False

    def _conditions(self, term: str) -> Iterator[Q]:
        if (number := whole_number(term)) is not None:
            yield Q(pk=number)
        for path in map(str, self.search_fields):
            relation, _, name = path.rpartition("__")
            model = _model_at(self.model, relation)
            beginnings = _beginnings(model._meta.get_field(name), term)
            if not relation:
                yield from beginnings
            elif related := _found(model, beginnings):  # first, as a planner that may join would rather read every row
                yield Q(**{f"{relation}__in": related}) & self.search_within.get(path, Q())


def _found(model: type[models.Model], conditions: Iterable[Q]) -> set[Any]:
    """The ids of some rows that meet one of the conditions."""
    found: set[Any] = set()
    for condition in conditions:
        found.update(model._default_manager.filter(condition).order_by().values_list("pk", flat=True)[:MOST_FOUND])
    return found


def _beginnings(field: Any, term: str) -> Iterator[Q]:
    """What a row meets whose column begins with what was typed, in one of the ways to write it."""
    if isinstance(field, models.SlugField):
        if slug := slugify(term):
            yield _begins(field.name, slug)
    elif isinstance(field, models.CharField):
        for spelling in {term, term.lower(), term.upper(), term.capitalize(), term.title()}:
            yield _begins(field.name, spelling)


def _begins(path: str, text: str) -> Q:
    """Rows whose column begins with `text`, by the column's index."""
    if connections["default"].vendor == "postgresql":
        return Q(**{f"{path}__startswith": text})
    # SQLite's LIKE ignores case and so its indexes, which are in the order of code points.
    return Q(**{f"{path}__gte": text, f"{path}__lt": f"{text}\U0010ffff"})


def _model_at(model: type[models.Model], relation: str) -> type[models.Model]:
    """The model to which a path such as `order__customer` leads; of an empty one the model itself."""
    for name in filter(None, relation.split("__")):
        model = model._meta.get_field(name).related_model  # type: ignore[assignment]
    return model


def money_column(name: str, *, description: str = "", currency: str = "currency") -> Callable[[Any], str]:
    """A column, or a read-only field, that shows the minor units in `name` as "12.50 EUR". `currency` is the path of
    the currency: `order__currency`."""

    @admin.display(description=description or name.replace("_", " ").capitalize(), ordering=name, empty_value="-")
    def shown(row: Any) -> str:
        minor = getattr(row, name)
        return "-" if minor is None else format_money(minor, _value_at(row, currency))

    return shown


def format_money(minor: int, currency: str) -> str:
    return f"{to_major(minor, currency):,} {currency}"


def _value_at(row: Any, path: str) -> Any:
    for name in path.split("__"):
        row = getattr(row, name)
    return row


class MoneyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form that shows and takes the columns in `money_fields` in major units: "12.50". The currency is the form's own
    field `currency`, else that of the row, which `get_currency` may find elsewhere."""

    money_fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in self._money_names():
            column = self.fields[name]
            self.fields[name] = forms.DecimalField(
                label=column.label, required=column.required, min_value=0, max_digits=20, decimal_places=4,
                widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
            )  # fmt: skip
            minor = getattr(self.instance, name)
            self.initial[name] = None if minor is None else to_major(minor, self.get_currency())

    def get_currency(self) -> str:
        return str(getattr(self.instance, "currency", "") or settings.CURRENCY)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        currency = str(cleaned.get("currency") or self.get_currency())
        for name in self._money_names():
            if isinstance(cleaned.get(name), Decimal):
                cleaned[name] = self._minor(name, cleaned[name], currency)
        return cleaned

    def _minor(self, name: str, major: Decimal, currency: str) -> int | None:
        try:
            minor = to_minor(major.normalize(), currency)
            if minor > LARGEST_PRICE:
                raise InvalidMoney("This amount is too large.")
        except InvalidMoney as error:
            self.add_error(name, str(error))
            return None
        return minor

    def _money_names(self) -> list[str]:
        return [name for name in self.money_fields if name in self.fields]
