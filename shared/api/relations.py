"""`with=shop;shop.owner`: related things inside a record, when they are asked for."""

from collections.abc import Callable, Collection
from copy import deepcopy
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.db import models
from django.utils.functional import cached_property
from rest_framework import serializers
from rest_framework.fields import Field, SkipField
from rest_framework.request import Request

from shared.api.errors import ValidationFailed

LONGEST_WITH = 500  # characters


def relations_asked(request: Request, view: Any) -> list[str]:
    """The relations that `with` names, outer ones before inner ones. Raises ValidationFailed for one that the view's
    filters do not list."""
    known = _known(view)
    if len(request.query_params.get("with", "")) > LONGEST_WITH:
        raise ValidationFailed({"with": [f"Send at most {LONGEST_WITH} characters."]})
    asked = _named(request)
    if unknown := sorted(asked - set(known)):
        offer = f"Ask for: {', '.join(known)}." if known else "This has no relations."
        raise ValidationFailed({"with": [f"{unknown[0][:100]!r} is not known here. {offer}"]})
    return sorted(asked)


class TimeField(serializers.DateTimeField):
    """A row's own time in UTC, as DATETIME_FORMAT has it, without asking for every value which zone is the current."""

    def to_representation(self, value: datetime) -> str:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


class RelationsSerializer(serializers.ModelSerializer[Any]):
    """A record whose `Meta.relations` are only there when `with` asks for them; nested ones by `outer.inner`."""

    serializer_field_mapping = {**serializers.ModelSerializer.serializer_field_mapping, models.DateTimeField: TimeField}
    shows_all_relations = False  # for the schema, which describes all that may be there

    def get_fields(self) -> dict[str, Any]:
        hidden: set[str] = set()
        if not self.shows_all_relations:
            asked, path = self.asked_for(), self._path()
            hidden = {name for name in self.relation_names() if f"{path}{name}" not in asked}
        return {name: deepcopy(field) for name, field in _fields_of(type(self)).items() if name not in hidden}

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """As DRF's own does, which looks at every field anew for every row: a list spends a third of its time there."""
        record = {}
        for name, column, field, represent in self._readers:
            try:
                value = getattr(instance, column) if column else field.get_attribute(instance)
                if column and callable(value):  # a method, or the manager of many
                    value = field.get_attribute(instance)
            except SkipField:
                continue
            record[name] = None if value is None else represent(value)
        return record

    @cached_property
    def _readers(self) -> list[tuple[str, str, "Field[Any, Any, Any, Any]", Callable[[Any], Any]]]:
        """Name, field and its way of writing; and the column, where all that the field does is to read it."""
        return [
            (str(field.field_name), _column(field), field, field.to_representation) for field in self._readable_fields
        ]

    def relation_names(self) -> Collection[str]:
        names: Collection[str] = getattr(self.Meta, "relations", ())
        return names

    def asked_for(self) -> set[str]:
        """The relations that the request asks for, by their whole path."""
        request, view = self.context.get("request"), self.context.get("view")
        if request is None or view is None:
            return set()
        return _named(request) & set(_known(view))

    def _path(self) -> str:
        names: list[str] = []
        step: Any = self
        while step.parent is not None:
            names.append(step.field_name or "")
            step = step.parent
        return "".join(f"{name}." for name in reversed(names) if name)


@cache
def _fields_of(serializer: type[RelationsSerializer]) -> dict[str, Any]:
    """The fields, to be copied: asking the model for them costs more than reading ten rows."""
    return serializers.ModelSerializer.get_fields(serializer())


def _column(field: Any) -> str:
    is_plain = type(field).get_attribute is Field.get_attribute and len(field.source_attrs) == 1
    return str(field.source_attrs[0]) if is_plain else ""


def _known(view: Any) -> list[str]:
    return sorted(getattr(getattr(view, "filterset_class", None), "relations", {}))


def _named(request: Request) -> set[str]:
    """Every name in `with`, and every outer name that it implies."""
    names = set()
    for name in request.query_params.get("with", "")[:LONGEST_WITH].split(";"):
        parts = [part.strip() for part in name.split(".")]
        names |= {".".join(parts[: count + 1]) for count in range(len(parts))} if name.strip() else set()
    return names
