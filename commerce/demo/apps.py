"""Configuration of the demo app."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "commerce.demo"
    label = "commerce_demo"
    verbose_name = "Demo data"
