"""The import of STOA_REMOTE_MODELS, which named remote models before there were pools."""

import json
from datetime import datetime

import structlog
from django.conf import settings
from django.contrib.auth.hashers import check_password, make_password
from django.db import transaction

from inference.pools.definitions import member_name
from inference.pools.models import PoolMember, SettingImport
from inference.pools.services import save_member
from shared.api.errors import ApiError

SETTING = "STOA_REMOTE_MODELS"
MOVED = (
    "STOA_REMOTE_MODELS was imported into the database at {at}: remote models are members of pools now, which the "
    "admin (Pools) and `stoa pools` list and change. {rest}"
)
SAME = "Remove the setting."
DIFFERS = (
    "Its value is not the one that was imported, so it is refused: make the change there (`stoa pools add`), and "
    "remove the setting."
)

logger = structlog.get_logger(__name__)


class SettingRefused(Exception):
    """The setting cannot be imported, or was and has another value now. The message says where its models are."""


def import_remote_models(*, now: datetime) -> None:
    """Import the setting once, each model as a pool of one member.

    A later start with the same value is told to remove it. Raise SettingRefused for another value.
    """
    models = settings.REMOTE_MODELS
    if not models:
        return
    value = json.dumps(json.loads(settings.REMOTE_MODELS_JSON), sort_keys=True)  # as written, without our defaults
    with transaction.atomic():
        defaults = {"digest": make_password(value), "imported_at": now}
        imported, is_new = SettingImport.objects.get_or_create(setting=SETTING, defaults=defaults)
        if is_new:
            _add_members(now)
            logger.warning("remote_models_imported", models=list(models), advice=SAME)
            return
    at = imported.imported_at.isoformat(timespec="seconds")
    if not check_password(value, imported.digest):
        raise SettingRefused(MOVED.format(at=at, rest=DIFFERS))
    logger.warning("remote_models_moved", advice=MOVED.format(at=at, rest=SAME))


def _add_members(now: datetime) -> None:
    """Add a member per model. A model that has a pool already keeps it."""
    existing = set(PoolMember.objects.values_list("model_id", flat=True))
    for model in settings.REMOTE_MODELS.values():
        if model.id in existing:
            continue
        member = PoolMember(
            model_id=model.id,
            name=member_name(model.base_url),
            base_url=model.base_url,
            model_name=model.model,
            kind=model.dialect,
            capabilities=list(model.capabilities),
            context_size=model.context_size,
            stream_usage=model.stream_usage,
            connect_timeout=model.connect_timeout,
            first_token_timeout=model.first_token_timeout,
            token_timeout=model.token_timeout,
        )
        try:
            save_member(member=member, api_key=model.api_key, actor=None, now=now)
        except ApiError as error:
            raise SettingRefused(
                f"STOA_REMOTE_MODELS cannot be imported: {model.id}: {error.problem.message}"
            ) from error
