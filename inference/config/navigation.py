"""Sidebar of the admin: the state of the installation first, then every app."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the groups of links in the format of unfold."""
    links = [
        {"title": "Health", "icon": "monitor_heart", "link": reverse("health_page")},
        {"title": "Playground", "icon": "chat", "link": "/playground"},
        {"title": "API", "icon": "api", "link": "/docs"},
    ]
    apps = [
        {
            "title": app["name"],
            "collapsible": True,
            "items": [{"title": model["name"], "link": model["admin_url"]} for model in app["models"]],
        }
        for app in admin.site.get_app_list(request)
    ]
    return [{"title": "Operation", "items": links}, *apps]
