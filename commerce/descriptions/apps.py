"""Django's name for this app."""

from django.apps import AppConfig


class DescriptionsConfig(AppConfig):
    name = "commerce.descriptions"
    label = "commerce_descriptions"
    verbose_name = "Descriptions"
