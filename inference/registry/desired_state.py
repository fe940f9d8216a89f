"""Reads and writes of the desired state of models. Call them from coroutines with `run_in_db_thread`."""

from datetime import datetime

import msgspec
from django.db import transaction
from django.db.models import F

from inference.engine import LoadOptions
from inference.registry.models import DesiredModel
from shared.accounts.models import User


class DesiredState(msgspec.Struct, frozen=True, kw_only=True):
    """A model's desired state. is_desired: it should be loaded. revision: 0 if no operator ever changed it."""

    model_id: str
    is_desired: bool = False
    options: LoadOptions = LoadOptions()
    revision: int = 0


def read_desired_states() -> dict[str, DesiredState]:
    """Return the desired state of every model that an operator ever loaded or unloaded, the oldest change first."""
    rows = DesiredModel.objects.order_by("changed_at", "pk")
    return {row.model_id: _desired_state(row) for row in rows}


def read_desired_state(model_id: str) -> DesiredState:
    row = DesiredModel.objects.filter(model_id=model_id).first()
    return _desired_state(row) if row else DesiredState(model_id=model_id)


@transaction.atomic
def set_desired(
    *, model_id: str, options: LoadOptions, actor: User | None, now: datetime, since_revision: int | None = None
) -> DesiredState:
    """Set that the model should be loaded with these options on every machine.

    since_revision: the revision when its load began. If an operator unloaded the model after that, change nothing.
    """
    row = DesiredModel.objects.select_for_update().filter(model_id=model_id).first()
    if since_revision is not None and row and row.revision != since_revision and not row.is_desired:
        return _desired_state(row)
    return _write(model_id, is_desired=True, options=options, actor=actor, now=now)


@transaction.atomic
def set_undesired(*, model_id: str, actor: User | None, now: datetime) -> DesiredState:
    """Set that the model should be loaded on no machine."""
    return _write(model_id, is_desired=False, options=LoadOptions(), actor=actor, now=now)


@transaction.atomic
def set_initially_desired(*, model_ids: list[str], now: datetime) -> None:
    """Set that these models should be loaded, unless an operator has ever loaded or unloaded a model."""
    if DesiredModel.objects.exists():
        return
    for model_id in model_ids:  # two machines may start at once
        DesiredModel.objects.get_or_create(
            model_id=model_id, defaults={"is_desired": True, "revision": 1, "changed_at": now}
        )


def _write(model_id: str, *, is_desired: bool, options: LoadOptions, actor: User | None, now: datetime) -> DesiredState:
    values = {
        "is_desired": is_desired,
        "options": msgspec.to_builtins(options),
        "changed_by": actor,
        "changed_at": now,
    }
    row, _ = DesiredModel.objects.update_or_create(
        model_id=model_id,
        defaults=values | {"revision": F("revision") + 1},
        create_defaults=values | {"revision": 1},
    )
    row.refresh_from_db()
    return _desired_state(row)


def _desired_state(row: DesiredModel) -> DesiredState:
    options = msgspec.convert(row.options, LoadOptions)
    return DesiredState(model_id=row.model_id, is_desired=row.is_desired, options=options, revision=row.revision)
