"""The parameter `with=shop;shop.owner`: related records inside a record. Unknown names are ignored.

It shows only what the user could read without it. If a model's manager has `visible_to(user)`, only those rows are
fetched, and other related records are null.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeAlias

from django.core.exceptions import ObjectDoesNotExist
from django.db import models
from django.db.models import Prefetch, prefetch_related_objects
from django.utils.functional import cached_property
from rest_framework import serializers
from rest_framework.fields import Field, SkipField
from rest_framework.request import Request

from shared.api.errors import ValidationFailed

User: TypeAlias = Any  # of the accounts app, which imports this package
MAX_WITH_LENGTH = 500  # characters
RELATION_PATH = "relation_path"  # context of a serializer inside a method field: `products.`, whose outer one fetches
INCLUDED = ""  # a relation that needs no query of its own: the record has it, or the relation around it fetches it


@dataclass(frozen=True)
class LoadedRelation:
    """Relation that is no path of model fields.

    `load(rows, user)` sets an attribute on every row, in at most two queries. It sets None, or leaves records out,
    where the user could not read them.
    """

    load: Callable[[Sequence[Any], User | None], None]


Relation: TypeAlias = "str | LoadedRelation | Callable[[User | None], Prefetch[Any]]"


def validate_relations(request: Request) -> None:
    """Raise ValidationFailed if `with` is too long."""
    if len(request.query_params.get("with", "")) > MAX_WITH_LENGTH:
        raise ValidationFailed({"with": [f"Send at most {MAX_WITH_LENGTH} characters."]})


class UTCDateTimeField(serializers.DateTimeField):
    """Time in UTC in DATETIME_FORMAT, without DRF's look-up of the current time zone for every value."""

    def to_representation(self, value: datetime) -> str:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


class RelationsSerializer(serializers.ModelSerializer[Any]):
    """Serializer whose `Meta.relations` appear only if `with` names them; nested ones as `outer.inner`."""

    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.DateTimeField: UTCDateTimeField,
    }
    _has_fetched = False
    shows_all_relations = False  # for the schema, which describes all possible fields

    def get_fields(self) -> dict[str, Any]:
        hidden: set[str] = set()
        if not self.shows_all_relations:
            requested, path = self.requested_relations(), self._path()
            hidden = {name for name in self.relation_names() if f"{path}{name}" not in requested}
        return {name: _copy(field) for name, field in _cached_fields(type(self)).items() if name not in hidden}

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """Return the record. DRF's own inspects every field again for every row, a third of a list's time."""
        if self._requested and not self._has_fetched:
            self._fetch(instance)
        record = {}
        prefetched = getattr(instance, "_prefetched_objects_cache", {})
        for name, column, field, represent in self._readers:
            try:
                if column in prefetched:  # the manager of the relation would be made and asked for nothing
                    value = prefetched[column]
                else:
                    value = getattr(instance, column) if column else field.get_attribute(instance)
                    if column and callable(value):  # a method, or the manager of a to-many relation
                        value = field.get_attribute(instance)
            except SkipField:
                continue
            except ObjectDoesNotExist:  # it exists, but the user may not see it
                value = None
            record[name] = None if value is None else represent(value)
        return record

    @cached_property
    def _readers(self) -> list[tuple[str, str, "Field[Any, Any, Any, Any]", Callable[[Any], Any]]]:
        """Return name, field, serialization and, for fields that only read it, the attribute."""
        return [
            (str(field.field_name), _plain_attribute(field), field, field.to_representation)
            for field in self._readable_fields
        ]

    @cached_property
    def _requested(self) -> "list[Relation]":
        """Return the requested relations of the outermost serializer, which fetches those of nested ones too."""
        request, view = self.context.get("request"), self.context.get("view")
        is_outermost = self.root is self or (self._is_listed and self.root is self.parent)
        if request is None or not is_outermost or RELATION_PATH in self.context:
            return []
        relations = _allowed_relations(view)
        requested = (relations[name] for name in sorted(requested_names(request) & relations.keys()))
        return [relation for relation in requested if relation != INCLUDED]

    def _fetch(self, instance: Any) -> None:
        """Fetch the relations of all rows of a list at once.

        Relations that the view has fetched are fetched again if some rows are not visible to everybody.
        """
        user = getattr(self.context["request"].auth, "user_with_full_role", None)
        rows = list(self.parent.instance) if self._is_listed else [instance]  # type: ignore[arg-type]
        lookups = _build_lookups(self.Meta.model, self._requested, user)
        for path, lookup in lookups.items():
            if isinstance(lookup, Prefetch):
                for row in rows:
                    row._state.fields_cache.pop(path, None)
        prefetch_related_objects(rows, *lookups.values())
        for relation in self._requested:
            if isinstance(relation, LoadedRelation):
                relation.load(rows, user)
        self._has_fetched = self._is_listed

    @property
    def _is_listed(self) -> bool:
        return isinstance(self.parent, serializers.ListSerializer)

    def relation_names(self) -> Collection[str]:
        names: Collection[str] = getattr(self.Meta, "relations", ())
        return names

    def requested_relations(self) -> set[str]:
        """Return the relations that the request names, by their full path."""
        request, view = self.context.get("request"), self.context.get("view")
        if request is None or view is None:
            return set()
        return requested_names(request) & set(_relation_names(view))

    def _path(self) -> str:
        names: list[str] = []
        step: Any = self
        while step.parent is not None:
            names.append(step.field_name or "")
            step = step.parent
        outer: str = self.context.get(RELATION_PATH, "")
        return outer + "".join(f"{name}." for name in reversed(names) if name)


@cache
def _cached_fields(serializer: type[RelationsSerializer]) -> dict[str, Any]:
    """Return the serializer's fields, which callers copy: building them costs more than reading ten rows."""
    return serializers.ModelSerializer.get_fields(serializer())


def _copy(field: Any) -> Any:
    """Return a field that is bound to nothing. DRF makes a field anew, which only fields inside others need."""
    has_children = isinstance(field, serializers.BaseSerializer) or hasattr(field, "child")
    return deepcopy(field) if has_children or isinstance(field, serializers.ManyRelatedField) else copy(field)


def _build_lookups(
    model: type[models.Model], requested: list[Relation], user: User | None
) -> "dict[str, str | Prefetch[Any]]":
    lookups: dict[str, str | Prefetch[Any]] = {}
    for relation in requested:
        if isinstance(relation, LoadedRelation):
            continue
        steps = _path_lookups(model, relation, user) if isinstance(relation, str) else [relation(user)]
        lookups |= {_lookup_path(step): step for step in steps if _lookup_path(step) not in lookups}
    return lookups


def _path_lookups(model: type[models.Model], path: str, user: User | None) -> "Iterator[str | Prefetch[Any]]":
    """Return one look-up per step of a path: for `shop__logo` the visible shops, then their logos."""
    names = path.split("__")
    for count, name in enumerate(names, 1):
        model = model._meta.get_field(name).related_model  # type: ignore[assignment]
        step = "__".join(names[:count])
        visible_to = getattr(model._default_manager, "visible_to", None)
        yield step if visible_to is None else Prefetch(step, visible_to(user))


def _lookup_path(lookup: "str | Prefetch[Any]") -> str:
    return lookup if isinstance(lookup, str) else lookup.prefetch_to


def _plain_attribute(field: Any) -> str:
    is_plain = type(field).get_attribute is Field.get_attribute and len(field.source_attrs) == 1
    return str(field.source_attrs[0]) if is_plain else ""


def _allowed_relations(view: Any) -> Mapping[str, Relation]:
    relations: Mapping[str, Relation] = getattr(getattr(view, "filterset_class", None), "relations", {})
    return relations


def _relation_names(view: Any) -> list[str]:
    return sorted(_allowed_relations(view))


def requested_names(request: Request) -> set[str]:
    """Return every name in `with`, and every outer name that it implies."""
    names = set()
    for name in request.query_params.get("with", "")[:MAX_WITH_LENGTH].split(";"):
        parts = [part.strip() for part in name.split(".")]
        names |= {".".join(parts[: count + 1]) for count in range(len(parts))} if name.strip() else set()
    return names
