"""Links of moderation in the admin's sidebar, with the length of the queue."""

from functools import cache
from typing import Any

from django.db.models import Count, Min
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.functional import lazy
from django.utils.translation import gettext as _

from commerce.moderation.labels import short_age
from commerce.moderation.queue.listing import MAX_COUNTED_CASES, QueueFilters, filter_queue
from shared.accounts.models import User


def links(request: HttpRequest) -> dict[str, Any]:
    """Return the navigation group of moderation for unfold."""
    statistics = reverse("admin:commerce_moderation_statistics")
    transparency = reverse("admin:commerce_moderation_transparency")
    second_look = reverse("admin:commerce_moderation_second_look")
    queue_url = reverse("admin:commerce_moderation_case_changelist")
    waiting = {
        "title": _("Queue"),
        "icon": "flag",
        "link": queue_url,
        "active": request.path.startswith(queue_url) and request.path not in (statistics, transparency, second_look),
        # Read only by pages that show the sidebar, where an empty text is no badge.
        "badge": lazy(cache(_waiting_badge), str)(),
        "badge_variant": "primary",
    }
    others = [
        (_("Decisions"), "gavel", _list_url("commerce_moderation_decision")),
        (_("Sanctions"), "person_off", _list_url("commerce_moderation_sanction")),
        (_("Second look"), "visibility", second_look),
        (_("Statistics"), "bar_chart", statistics),
        (_("Reasons"), "label", _list_url("commerce_moderation_reportreason")),
        (_("Holding rules"), "front_hand", _list_url("commerce_moderation_holdingrule")),
        (_("Templates"), "description", _list_url("commerce_moderation_decisiontemplate")),
    ]
    if isinstance(request.user, User) and request.user.is_superuser:
        others.append((_("Audit log"), "history", _list_url("audit_auditentry")))
    return {
        "title": _("Moderation"),
        "items": [waiting, *({"title": title, "icon": icon, "link": url} for title, icon, url in others)],
    }


def _list_url(model: str) -> str:
    return reverse(f"admin:{model}_changelist")


def _waiting_badge() -> str:
    """Return the length of the queue and the age of its oldest report, such as "214 · 3 days", or an empty string."""
    now = timezone.now()
    first = filter_queue(QueueFilters(), order="oldest", now=now).values("oldest_at")[:MAX_COUNTED_CASES]
    figures = first.aggregate(length=Count("*"), oldest=Min("oldest_at"))
    if figures["oldest"] is None:
        return ""
    count = number_format(figures["length"], use_l10n=True, force_grouping=True)
    more = "+" if figures["length"] >= MAX_COUNTED_CASES else ""
    return f"{count}{more} · {short_age(now - figures['oldest'])}"
