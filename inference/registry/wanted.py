"""Every read and write of what the operators want loaded. Plain functions of the database; `off_the_loop` runs them
where an event loop is."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import ParamSpec, TypeVar

import msgspec
from django.db import connection, transaction
from django.db.models import F

from inference.engine import LoadOptions
from inference.registry.models import WantedModel
from shared.accounts.models import User

P = ParamSpec("P")
R = TypeVar("R")


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """The operators' last word on a model. revision: 0 where there is none yet."""

    model_id: str
    is_wanted: bool = False
    options: LoadOptions = LoadOptions()
    revision: int = 0


async def off_the_loop(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run in a thread and close its database connection: right also in a task that outlives its request."""

    def run() -> R:
        try:
            return work(*args, **kwargs)
        finally:
            connection.close()

    return await asyncio.to_thread(run)


def read_wishes() -> dict[str, Wish]:
    """Every model that an operator ever spoke of; the longest wanted first."""
    rows = WantedModel.objects.order_by("changed_at", "pk")
    return {row.model_id: _wish(row) for row in rows}


def read_wish(model_id: str) -> Wish:
    """One with revision 0 where nobody ever spoke of the model."""
    row = WantedModel.objects.filter(model_id=model_id).first()
    return _wish(row) if row else Wish(model_id=model_id)


@transaction.atomic
def want_model(
    *, model_id: str, options: LoadOptions, actor: User | None, now: datetime, since: int | None = None
) -> Wish:
    """From now on the model should be loaded, with these options, on every machine.

    since: the revision when its load began; an operator who unloaded it after that has the last word.
    """
    row = WantedModel.objects.select_for_update().filter(model_id=model_id).first()
    if since is not None and row and row.revision != since and not row.is_wanted:
        return _wish(row)
    return _say(model_id, is_wanted=True, options=options, actor=actor, now=now)


@transaction.atomic
def unwant_model(*, model_id: str, actor: User | None, now: datetime) -> Wish:
    """From now on the model should be loaded nowhere."""
    return _say(model_id, is_wanted=False, options=LoadOptions(), actor=actor, now=now)


@transaction.atomic
def want_first_models(*, model_ids: list[str], now: datetime) -> None:
    """What an installation begins with: only as long as no operator ever loaded or unloaded anything."""
    if WantedModel.objects.exists():
        return
    for model_id in model_ids:  # two machines may begin at once
        WantedModel.objects.get_or_create(
            model_id=model_id, defaults={"is_wanted": True, "revision": 1, "changed_at": now}
        )


def _say(model_id: str, *, is_wanted: bool, options: LoadOptions, actor: User | None, now: datetime) -> Wish:
    said = {
        "is_wanted": is_wanted,
        "options": msgspec.to_builtins(options),
        "changed_by": actor,
        "changed_at": now,
    }
    row, is_new = WantedModel.objects.get_or_create(model_id=model_id, defaults=said | {"revision": 1})
    if not is_new:
        WantedModel.objects.filter(pk=row.pk).update(revision=F("revision") + 1, **said)
        row.refresh_from_db()
    return _wish(row)


def _wish(row: WantedModel) -> Wish:
    options = msgspec.convert(row.options, LoadOptions)
    return Wish(model_id=row.model_id, is_wanted=row.is_wanted, options=options, revision=row.revision)
