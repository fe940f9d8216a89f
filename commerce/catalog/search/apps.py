"""Configuration of the search app. PostgreSQL's trigram index on the words finds misspelled ones (`text_indexes`)."""

from django.apps import AppConfig


class SearchConfig(AppConfig):
    name = "commerce.catalog.search"
    label = "commerce_search"
    verbose_name = "Search"
    text_search_fields = {"searchword": ["word"]}
