"""What is kept about a person, table by table, and what becomes of it when they are erased.

Every app with such tables says so in `personal_data.RULES`, and in `personal_data.HINDRANCES` what has to be settled
before. A test finds each column that refers to a user and has no rule.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import Any

from django.apps import apps
from django.db import models
from django.utils.module_loading import module_has_submodule

from shared.accounts.models import User

Erase = Callable[[User, datetime], None]
Hindrance = Callable[[User], str]  # what has to be settled first, in words; "" for nothing

MODULE = "personal_data"


@dataclass(frozen=True)
class Rule:
    """What becomes of the rows of `model` that name a person in `field`. `why` they are kept, where `erase` is None.

    by_email: the field holds their e-mail and not their id. hidden: columns that nobody is told, such as hashes.
    more: what else the person is told, by the names of its tables.
    """

    model: type[models.Model]
    field: str
    erase: Erase | None
    why: str = ""
    by_email: bool = False
    hidden: tuple[str, ...] = ()
    more: "Callable[[User], dict[str, models.QuerySet[Any]]] | None" = None

    def rows(self, user: User) -> "models.QuerySet[Any]":
        named = user.email if self.by_email else user
        return self.model._base_manager.filter(**{self.field: named})

    def told(self, user: User) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
        """The names of tables, and rows of them as the person is told."""
        yield f"{self.model._meta.label}.{self.field}", map(self._row, self.rows(user).order_by("pk").iterator())
        for name, rows in (self.more(user) if self.more else {}).items():
            yield name, map(self._row, rows.order_by("pk").iterator())

    def _row(self, row: models.Model) -> dict[str, Any]:
        fields = row._meta.concrete_fields
        return {field.attname: field.value_from_object(row) for field in fields if field.name not in self.hidden}


def kept(model: type[models.Model], field: str, *, why: str, hidden: tuple[str, ...] = ()) -> Rule:
    """The rows stay as they are: they name the person by an id, behind which nobody is left."""
    return Rule(model, field, None, why=why, hidden=hidden)


def deleted(model: type[models.Model], field: str, *, by_email: bool = False, hidden: tuple[str, ...] = ()) -> Rule:
    """The rows go."""

    def erase(user: User, now: datetime) -> None:
        rule.rows(user).delete()

    rule = Rule(model, field, erase, by_email=by_email, hidden=hidden)
    return rule


def blanked(model: type[models.Model], field: str, **values: Any) -> Rule:
    """The rows stay, with these values in the place of what was personal."""

    def erase(user: User, now: datetime) -> None:
        rule.rows(user).update(**values)

    rule = Rule(model, field, erase)
    return rule


def all_rules() -> list[Rule]:
    """Of every app of this project, in the order in which they are followed: who refers to others comes before them."""
    return [rule for module in _modules() for rule in module.RULES]


def hindrances(user: User) -> list[str]:
    """What has to be settled before this person can be erased."""
    found = [hindrance(user) for module in _modules() for hindrance in getattr(module, "HINDRANCES", ())]
    return [words for words in found if words]


def _modules() -> list[Any]:
    """The projects' apps before those that they stand on."""
    configs = [config for config in apps.get_app_configs() if module_has_submodule(config.module, MODULE)]
    return [import_module(f"{config.name}.{MODULE}") for config in reversed(configs)]
