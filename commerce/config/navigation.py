"""Sidebar of the admin: moderation, the dashboard, the installation's state and the other pages, then every app."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from commerce.analytics.dashboard.access import ALLOWED_ROLES
from commerce.moderation.admin import sidebar
from shared.pages.links import sidebar_group

APPS_IN_FIRST_GROUP = ("commerce_moderation", "audit")


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the groups of links in the format of unfold."""
    groups = [sidebar.links(request)]
    if getattr(request.user, "role", None) in ALLOWED_ROLES:
        dashboard = {"title": _("Dashboard"), "icon": "monitoring", "link": f"{reverse('admin:index')}dashboard/"}
        groups.append({"title": _("Analytics"), "items": [dashboard]})
    if getattr(request.user, "is_superuser", False):
        health = {"title": _("Health"), "icon": "monitor_heart", "link": f"{reverse('admin:index')}health/"}
        groups.append({"title": _("Operation"), "items": [health]})
    return [*groups, sidebar_group(request), *_app_groups(request)]


def _app_groups(request: HttpRequest) -> list[dict[str, Any]]:
    groups = []
    for app in admin.site.get_app_list(request):
        links = [{"title": model["name"], "link": model["admin_url"]} for model in app["models"] if model["admin_url"]]
        if links and app["app_label"] not in APPS_IN_FIRST_GROUP:
            groups.append({"title": app["name"], "collapsible": True, "items": links})
    return groups
