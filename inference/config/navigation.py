"""Sidebar of the admin: the state of the installation and the other pages, then every app."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from shared.pages.links import sidebar_group


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the groups of links in the format of unfold."""
    health = {"title": "Health", "icon": "monitor_heart", "link": reverse("health_page")}
    apps = [
        {
            "title": app["name"],
            "collapsible": True,
            "items": [{"title": model["name"], "link": model["admin_url"]} for model in app["models"]],
        }
        for app in admin.site.get_app_list(request)
    ]
    return [{"title": "Operation", "items": [health]}, sidebar_group(request), *apps]
