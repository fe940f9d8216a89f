from django.apps import AppConfig


class ServingConfig(AppConfig):
    """Gives both projects the `serve` command."""

    name = "shared.serving"
