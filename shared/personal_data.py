"""Rules for personal data: per table, what an export contains and what the erasure of a person does.

Every app with such tables has a module `personal_data` with RULES, and with ERASURE_BLOCKERS where something must be
settled before. A test finds each column that refers to a user and has no rule.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from itertools import chain
from typing import Any, TypeAlias

from django.apps import apps
from django.db import models
from django.utils.module_loading import module_has_submodule

from shared.querysets import pages_by_pk

User: TypeAlias = Any  # of the accounts app, which imports this module
Erase = Callable[[User, datetime], None]
ErasureBlocker = Callable[[User], str]  # the message that says what to settle first; "" for nothing

MODULE = "personal_data"


@dataclass(frozen=True)
class PersonalDataRule:
    """Export and erasure of the rows of `model` that refer to a person in `field`.

    Args:
        erase: None where the rows stay, for the `reason`.
        by_email: `field` holds the person's email, not their id.
        excluded_fields: columns that an export leaves out, such as hashes.
        related_rows: more rows that an export contains, by the name of their table.
    """

    model: type[models.Model]
    field: str
    erase: Erase | None
    reason: str = ""
    by_email: bool = False
    excluded_fields: tuple[str, ...] = ()
    related_rows: Callable[[User], dict[str, models.QuerySet[Any]]] | None = None

    def rows(self, user: User) -> "models.QuerySet[Any]":
        value = user.email if self.by_email else user
        return self.model._base_manager.filter(**{self.field: value})

    def export(self, user: User) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
        """Yield the name of each table with its rows as dictionaries."""
        yield f"{self.model._meta.label}.{self.field}", self._read(self.rows(user))
        for name, rows in (self.related_rows(user) if self.related_rows else {}).items():
            yield name, self._read(rows)

    def _read(self, rows: "models.QuerySet[Any]") -> Iterator[dict[str, Any]]:
        return map(self._row, chain.from_iterable(pages_by_pk(rows)))

    def _row(self, row: models.Model) -> dict[str, Any]:
        return {
            field.column or field.attname: field.value_from_object(row)
            for field in row._meta.concrete_fields
            if field.name not in self.excluded_fields
        }


def retain_rows(
    model: type[models.Model], field: str, *, reason: str, excluded_fields: tuple[str, ...] = ()
) -> PersonalDataRule:
    """Return a rule that keeps the rows unchanged: the id in them refers to an erased account."""
    return PersonalDataRule(model, field, None, reason=reason, excluded_fields=excluded_fields)


def delete_rows(
    model: type[models.Model], field: str, *, by_email: bool = False, excluded_fields: tuple[str, ...] = ()
) -> PersonalDataRule:
    """Return a rule that deletes the rows."""

    def erase(user: User, now: datetime) -> None:
        rule.rows(user).delete()

    rule = PersonalDataRule(model, field, erase, by_email=by_email, excluded_fields=excluded_fields)
    return rule


def overwrite_rows(
    model: type[models.Model], field: str, *, excluded_fields: tuple[str, ...] = (), **values: Any
) -> PersonalDataRule:
    """Return a rule that keeps the rows and overwrites their personal columns with these values."""

    def erase(user: User, now: datetime) -> None:
        rule.rows(user).update(**values)

    rule = PersonalDataRule(model, field, erase, excluded_fields=excluded_fields)
    return rule


def personal_data_rules() -> list[PersonalDataRule]:
    """Return the rules of all apps in the order of erasure: rows that refer to others come first."""
    return [rule for module in _modules() for rule in module.RULES]


def erasure_blockers(user: User) -> list[str]:
    """Return a message for each thing that must be settled before this person can be erased."""
    messages = [blocker(user) for module in _modules() for blocker in getattr(module, "ERASURE_BLOCKERS", ())]
    return [message for message in messages if message]


def _modules() -> list[Any]:
    """Return the `personal_data` modules, those of the projects before those of `shared`."""
    configs = [config for config in apps.get_app_configs() if module_has_submodule(config.module, MODULE)]
    return [import_module(f"{config.name}.{MODULE}") for config in reversed(configs)]
