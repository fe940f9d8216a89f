"""Django configuration of the attachments app."""

from django.apps import AppConfig


class AttachmentsConfig(AppConfig):
    name = "commerce.attachments"
    label = "commerce_attachments"
    verbose_name = "Attachments"
