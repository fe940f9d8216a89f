"""Django's name for this app."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "commerce.demo"
    label = "commerce_demo"
    verbose_name = "Demo data"
