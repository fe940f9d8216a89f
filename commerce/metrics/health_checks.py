"""Checks of the shop's installation, for the admin's health page."""

from datetime import timedelta
from functools import partial
from pathlib import Path

import httpx2
from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from commerce.analytics.aggregation.batches import measure_lag
from commerce.catalog.search.indexing import oldest_change
from commerce.catalog.search.vectors.embedding import missing_count
from commerce.config.celery import app
from shared.observability.checks import (
    Check,
    Finding,
    check_database,
    check_disk,
    check_redis,
    check_version,
    check_workers,
)
from shared.serving.processes.celery_app import count_queued_messages
from shared.serving.storage_checks import written_folders
from shared.webhooks.checks import check_webhooks

MODEL_SERVER_TIMEOUT_SECONDS = 3.0
MAX_LAG = timedelta(minutes=5)  # a worker follows within seconds


def check_queues() -> list[Finding]:
    """Return whether workers answer, and how many tasks wait for them."""
    return check_workers(app, partial(count_queued_messages, app))


def check_search() -> list[Finding]:
    """Return whether the index of the search follows the products, and how many of them are not compared by meaning."""
    oldest = oldest_change()
    is_ok = oldest is None or timezone.now() - oldest < MAX_LAG
    found = _("It has all products.") if oldest is None else _("Products have changed since it was written.")
    advice = "" if is_ok else _("Start a worker; its log says why if it ends.")
    findings = [Finding(_("search index"), is_ok, found, advice)]
    if settings.SEARCH_MODEL:
        numbers = {"count": missing_count(settings.SEARCH_MODEL), "model": settings.SEARCH_MODEL}
        findings.append(
            Finding(_("search index"), True, _("Products without a vector of %(model)s: %(count)s.") % numbers)
        )
    return findings


def check_analytics() -> list[Finding]:
    """Return whether the figures of analytics follow the orders."""
    lag = measure_lag(now=timezone.now())
    is_ok = lag.seconds < MAX_LAG.total_seconds()
    found = _("Changes of orders that are not counted yet: %(count)s.") % {"count": lag.entries}
    advice = "" if is_ok else _("Start a worker; its log says why if it ends.")
    return [Finding(_("analytics"), is_ok, found, advice)]


def check_model_server() -> list[Finding]:
    """Return whether the server that writes descriptions answers, and has the models of the settings."""
    if not settings.DESCRIPTIONS_BASE_URL:
        found = _("None: no descriptions are written, and search compares words alone.")
        return [Finding(_("model server"), True, found)]
    try:
        answer = httpx2.get(
            f"{settings.DESCRIPTIONS_BASE_URL}/models",
            headers={"Authorization": f"Bearer {settings.DESCRIPTIONS_API_KEY}"},
            timeout=MODEL_SERVER_TIMEOUT_SECONDS,
        )
        answer.raise_for_status()
        models = {model["id"] for model in answer.json()["data"]}
    except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
        found = _("It does not answer: %(reason)s.") % {"reason": type(error).__name__}
        advice = _("Start it, or correct STOA_DESCRIPTIONS_BASE_URL and STOA_DESCRIPTIONS_API_KEY.")
        return [Finding(_("model server"), False, found, advice)]
    missing = sorted({settings.DESCRIPTIONS_MODEL, settings.SEARCH_MODEL} - models - {""})
    found = _("It answers.") if not missing else _("It has no model %(models)s.") % {"models": ", ".join(missing)}
    advice = _("Load it there, or name another in the settings.") if missing else ""
    return [Finding(_("model server"), not missing, found, advice)]


def check_deliveries() -> list[Finding]:
    """Return whether deliveries of webhooks failed for good lately."""
    return check_webhooks(_("The list of deliveries in this admin shows them, and sends them again."))


def check_data_folders() -> list[Finding]:
    """Return whether the folders of data can be written and have room."""
    media = [] if settings.STORAGE == "s3" else [Path(settings.MEDIA_ROOT)]
    return check_disk([*written_folders(), *media])


CHECKS: tuple[Check, ...] = (
    check_version,
    check_database,
    check_redis,
    check_queues,
    check_search,
    check_analytics,
    check_model_server,
    check_deliveries,
    check_data_folders,
)
