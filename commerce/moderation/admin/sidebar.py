"""Moderation in the admin's sidebar, with how much waits beside the queue's name."""

from typing import Any

from django.db.models import Count, Min
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from commerce.moderation.admin.labels import short_age
from commerce.moderation.queue.listing import MOST_COUNTED, QueueFilters, queue


def links(request: HttpRequest) -> dict[str, Any]:
    """The group of moderation, as unfold takes it."""
    statistics = reverse("admin:commerce_moderation_statistics")
    queue_url = reverse("admin:commerce_moderation_case_changelist")
    waiting = {
        "title": _("Queue"),
        "icon": "flag",
        "link": queue_url,
        "active": request.path.startswith(queue_url) and request.path != statistics,
        "badge": "commerce.moderation.admin.sidebar.waiting_badge",
        "badge_variant": "primary",
    }
    decisions, log = (
        reverse(f"admin:{name}_changelist") for name in ("commerce_moderation_decision", "audit_auditentry")
    )
    others = [
        (_("Decisions"), "gavel", decisions),
        (_("Statistics"), "bar_chart", statistics),
        (_("Audit log"), "history", log),
    ]
    return {
        "title": _("Moderation"),
        "items": [waiting, *({"title": title, "icon": icon, "link": url} for title, icon, url in others)],
    }


def waiting_badge(request: HttpRequest) -> str:
    """How many items wait, and how long the first of them has: "214 · 3 days". Nothing for none."""
    now = timezone.now()
    first = queue(QueueFilters(), order="oldest", now=now).values("oldest_at")[:MOST_COUNTED]
    figures = first.aggregate(length=Count("*"), oldest=Min("oldest_at"))
    if figures["oldest"] is None:
        return ""
    count = f"{figures['length']:,}" if figures["length"] < MOST_COUNTED else f"{MOST_COUNTED:,}+"
    return f"{count} · {short_age(now - figures['oldest'])}"
