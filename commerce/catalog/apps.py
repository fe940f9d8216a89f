"""Django's name for this app."""

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "commerce.catalog"
    label = "commerce_catalog"
    verbose_name = "Catalog"
