"""Django's name for this app, and which of its texts are searched for words (`shared/api/text_indexes`)."""

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "commerce.catalog"
    label = "commerce_catalog"
    verbose_name = "Catalog"
    searched_texts = {"product": ["name", "description", "sku"]}
