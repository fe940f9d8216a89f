"""Writes to the settings of the shop. Only super admins change them."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from commerce.attachments.models import Attachment
from commerce.site_settings.maintenance import closure
from commerce.site_settings.models import Site, SiteOptions
from shared.accounts.models import User
from shared.api.errors import ValidationFailed
from shared.api.query_params import DEFAULT_LANGUAGE
from shared.audit.services import record_audit_entry

MAX_OPTIONS_BYTES = 64 * 1024
MAX_LANGUAGES = 100


@transaction.atomic
def change_settings(*, actor: User, language: str, changes: Mapping[str, Any], now: datetime) -> SiteOptions:
    """Change the options in `changes` and keep all others.

    `logo` is the id of an uploaded image. `isUnderMaintenance`, `languages`, and `start` and `until` of
    `maintenance` hold in every language. Raises ValidationFailed for an unknown image, for a maintenance that ends
    before it starts, and for too many or too large options.
    """
    site = _change_site(changes, now)
    row = SiteOptions.objects.select_for_update().filter(language=language).first()
    if row is None:
        _require_few_languages()
        row = SiteOptions(language=language, created_at=now)
    if "logo" in changes and changes["logo"] != row.logo_id:
        _require_image(actor, changes["logo"])
        row.logo_id = changes["logo"]
    before, row.options = row.options, row.options | _stored_options(changes)
    if (size := len(json.dumps(row.options))) > MAX_OPTIONS_BYTES:
        message = f"The options have {size} bytes together; at most {MAX_OPTIONS_BYTES} are allowed."
        raise ValidationFailed({"options": [message]})
    row.updated_at = now
    row.save()
    names = sorted(name for name in changes if row.options.get(name) != before.get(name) or name not in row.options)
    details = {"language": language, "options": names, "is_under_maintenance": site.is_under_maintenance}
    record_audit_entry(
        action="settings.change", actor=actor, target_type="SiteOptions", target_id=row.pk, details=details, now=now
    )
    transaction.on_commit(closure.forget)
    return row


def read_settings(*, language: str) -> tuple[Site, SiteOptions, list[str]]:
    """Return the settings in this language, else in English, and all languages that have some.

    The rows are unsaved where nothing was stored.
    """
    languages = sorted(SiteOptions.objects.values_list("language", flat=True))
    found = language if language in languages else DEFAULT_LANGUAGE
    row = SiteOptions.objects.select_related("logo").filter(language=found).first()
    return Site.objects.first() or Site(), row or SiteOptions(language=found), languages


def _change_site(changes: Mapping[str, Any], now: datetime) -> Site:
    Site.objects.get_or_create(pk=1, defaults={"updated_at": now})
    site = Site.objects.select_for_update().get()
    dates = changes.get("maintenance") or {}
    site.is_under_maintenance = changes.get("isUnderMaintenance", site.is_under_maintenance)
    site.languages = changes.get("languages", site.languages)
    site.maintenance_start = dates.get("start", site.maintenance_start)
    site.maintenance_until = dates.get("until", site.maintenance_until)
    if site.maintenance_start and site.maintenance_until and site.maintenance_until <= site.maintenance_start:
        raise ValidationFailed({"options.maintenance.until": ["Send a time after `start`."]})
    site.updated_at = now
    site.save()
    return site


def _stored_options(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of one language, without those that have a column."""
    options = {
        name: value for name, value in changes.items() if name not in ("logo", "isUnderMaintenance", "languages")
    }
    if maintenance := options.get("maintenance"):
        options["maintenance"] = {name: maintenance[name] for name in maintenance.keys() - {"start", "until"}}
    return options


def _require_few_languages() -> None:
    if SiteOptions.objects.count() >= MAX_LANGUAGES:
        raise ValidationFailed({"language": [f"There are settings in {MAX_LANGUAGES} languages, which is the limit."]})


def _require_image(actor: User, image_id: int | None) -> None:
    if image_id is None:
        return
    if not Attachment.objects.for_user(actor).filter(pk=image_id, width__isnull=False).exists():
        raise ValidationFailed({"options.logo": ["Send the id of an uploaded image."]})
