"""The admin's sidebar: moderation and the figures first, as they are daily work; then every app."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from commerce.moderation import admin_sidebar

ABOVE = ("commerce_moderation", "audit")  # what the group on top has already


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Groups of links, as unfold takes them. Only a moderator is asked for anything: others see no admin."""
    dashboard = {"title": "Dashboard", "icon": "monitoring", "link": f"{reverse('admin:index')}dashboard/"}
    return [admin_sidebar.links(request), {"title": "Figures", "items": [dashboard]}, *_apps(request)]


def _apps(request: HttpRequest) -> list[dict[str, Any]]:
    groups = []
    for app in admin.site.get_app_list(request):
        links = [{"title": model["name"], "link": model["admin_url"]} for model in app["models"] if model["admin_url"]]
        if links and app["app_label"] not in ABOVE:
            groups.append({"title": app["name"], "collapsible": True, "items": links})
    return groups
