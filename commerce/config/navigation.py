"""The admin's sidebar: moderation first, as it is daily work, with what waits beside its name; then every app."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

ABOVE = ("commerce_moderation", "audit")  # what the group on top has already


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Groups of links, as unfold takes them. Only a moderator is asked for anything: others see no admin."""
    return [_moderation(request), *_apps(request)]


def _moderation(request: HttpRequest) -> dict[str, Any]:
    statistics = reverse("admin:commerce_moderation_statistics")
    queue_url = reverse("admin:commerce_moderation_case_changelist")
    queue = {
        "title": _("Queue"),
        "icon": "flag",
        "link": queue_url,
        "active": request.path.startswith(queue_url) and request.path != statistics,
        "badge": "commerce.moderation.admin_statistics.waiting_badge",
        "badge_variant": "primary",
    }
    decisions, log = (
        reverse(f"admin:{name}_changelist") for name in ("commerce_moderation_decision", "audit_auditentry")
    )
    links = [
        (_("Decisions"), "gavel", decisions),
        (_("Statistics"), "bar_chart", statistics),
        (_("Audit log"), "history", log),
    ]
    return {
        "title": _("Moderation"),
        "items": [queue, *({"title": title, "icon": icon, "link": url} for title, icon, url in links)],
    }


def _apps(request: HttpRequest) -> list[dict[str, Any]]:
    groups = []
    for app in admin.site.get_app_list(request):
        links = [{"title": model["name"], "link": model["admin_url"]} for model in app["models"] if model["admin_url"]]
        if links and app["app_label"] not in ABOVE:
            groups.append({"title": app["name"], "collapsible": True, "items": links})
    return groups
