"""`with=shop;shop.owner`: related things inside a record, when they are asked for."""

from collections.abc import Collection
from typing import Any

from rest_framework import serializers
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


class RelationsSerializer(serializers.ModelSerializer[Any]):
    """A record whose `Meta.relations` are only there when `with` asks for them; nested ones by `outer.inner`."""

    shows_all_relations = False  # for the schema, which describes all that may be there

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        if self.shows_all_relations:
            return fields
        asked, path = self.asked_for(), self._path()
        hidden = {name for name in self.relation_names() if f"{path}{name}" not in asked}
        return {name: field for name, field in fields.items() if name not in hidden}

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


def _known(view: Any) -> list[str]:
    return sorted(getattr(getattr(view, "filterset_class", None), "relations", {}))


def _named(request: Request) -> set[str]:
    """Every name in `with`, and every outer name that it implies."""
    names = set()
    for name in request.query_params.get("with", "")[:LONGEST_WITH].split(";"):
        parts = [part.strip() for part in name.split(".")]
        names |= {".".join(parts[: count + 1]) for count in range(len(parts))} if name.strip() else set()
    return names
