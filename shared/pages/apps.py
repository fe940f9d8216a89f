"""Django app of the pages that both servers have."""

from django.apps import AppConfig


class PagesConfig(AppConfig):
    """App with templates and static files only."""

    name = "shared.pages"
