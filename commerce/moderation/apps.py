"""Django's name for this app."""

from django.apps import AppConfig


class ModerationConfig(AppConfig):
    name = "commerce.moderation"
    label = "commerce_moderation"
    verbose_name = "Moderation"
