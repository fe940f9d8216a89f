"""Configuration of the catalog app. `text_search_fields` names the columns with trigram indexes (`text_indexes`)."""

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "commerce.catalog"
    label = "commerce_catalog"
    verbose_name = "Catalog"
    text_search_fields = {"product": ["name", "description", "sku"]}
