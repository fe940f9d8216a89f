"""Configuration of the storefront app."""

from django.apps import AppConfig


class StorefrontConfig(AppConfig):
    name = "commerce.storefront"
    label = "commerce_storefront"
    verbose_name = "Storefront"
