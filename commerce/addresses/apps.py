"""Configuration of the addresses app."""

from django.apps import AppConfig


class AddressesConfig(AppConfig):
    name = "commerce.addresses"
    label = "commerce_addresses"
    verbose_name = "Addresses"
