"""Django app of the serving commands."""

from django.apps import AppConfig


class ServingConfig(AppConfig):
    """App with the commands `serve` and `settings`."""

    name = "shared.serving"
