"""Configuration of the shops app."""

from django.apps import AppConfig


class ShopsConfig(AppConfig):
    name = "commerce.shops"
    label = "commerce_shops"
    verbose_name = "Shops"
