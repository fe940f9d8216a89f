"""Checks of the shop's installation, for the admin's health page."""

from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path

import httpx2
from celery import current_app
from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from commerce.analytics.aggregation.batches import measure_lag
from commerce.catalog.search.indexing import outdated_count
from commerce.catalog.search.vectors.embedding import missing_count
from commerce.model_server.transport import sync_http_client
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
MAX_MODEL_LIST_BYTES = 4 * 1024 * 1024
MAX_LAG = timedelta(minutes=5)  # a worker follows within seconds


def check_queues() -> list[Finding]:
    """Return whether workers answer, and how many tasks wait for them."""
    if not current_app.conf.broker_url:
        return [Finding(_("workers"), True, _("None: the web processes do the periodic work."))]
    return check_workers(current_app, partial(count_queued_messages, current_app))


def check_search() -> list[Finding]:
    """Return how many products the index of the search does not have yet, and how many are not compared by meaning."""
    found = _("Products whose changes are not in it yet: %(count)s.") % {"count": outdated_count()}
    findings = [Finding(_("search index"), True, found)]
    if settings.SEARCH_MODEL:
        numbers = {"count": missing_count(settings.SEARCH_MODEL), "model": settings.SEARCH_MODEL}
        found = _("Products without a vector of %(model)s: %(count)s.") % numbers
        findings.append(Finding(_("search index"), True, found))
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
        with sync_http_client(timeout_seconds=MODEL_SERVER_TIMEOUT_SECONDS, max_bytes=MAX_MODEL_LIST_BYTES) as client:
            answer = client.get(f"{settings.DESCRIPTIONS_BASE_URL.rstrip('/')}/models", headers=_headers())
        if answer.status_code == HTTPStatus.FORBIDDEN:  # a key for inference alone works
            return [Finding(_("model server"), True, _("It answers. The key may not list its models."))]
        answer.raise_for_status()
        models = {model["id"] for model in answer.json()["data"]}
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError) as error:
        found = _("It does not answer: %(reason)s.") % {"reason": type(error).__name__}
        advice = _("Start it, or correct STOA_DESCRIPTIONS_BASE_URL and STOA_DESCRIPTIONS_API_KEY.")
        return [Finding(_("model server"), False, found, advice)]
    missing = sorted({settings.DESCRIPTIONS_MODEL, settings.SEARCH_MODEL} - models - {""})
    found = _("It answers.") if not missing else _("It has no model %(models)s.") % {"models": ", ".join(missing)}
    advice = _("Load it there, or name another in the settings.") if missing else ""
    return [Finding(_("model server"), not missing, found, advice)]


def _headers() -> dict[str, str]:
    key = settings.DESCRIPTIONS_API_KEY
    return {"Authorization": f"Bearer {key}"} if key else {}


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
