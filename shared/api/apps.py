"""App of the API code, which registers the schema extensions and the path converter `id`."""

from importlib import import_module

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ApiConfig(AppConfig):
    name = "shared.api"

    def ready(self) -> None:
        import_module("shared.api.converters")
        import_module("shared.api.lists.schema")
        import_module("shared.api.reads.cache").watch_writes()
        import_module("shared.serving.asgi.calls").count_queries()
        post_migrate.connect(import_module("shared.api.lists.text_indexes").create_text_indexes, sender=self)
