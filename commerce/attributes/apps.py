"""Configuration of the attributes app."""

from django.apps import AppConfig


class AttributesConfig(AppConfig):
    name = "commerce.attributes"
    label = "commerce_attributes"
    verbose_name = "Attributes"
