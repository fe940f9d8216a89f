"""The Django app of responses and conversations."""

from django.apps import AppConfig


class ResponsesConfig(AppConfig):
    """App of stored responses and conversations."""

    name = "inference.responses"
    label = "inference_responses"
    verbose_name = "Responses"
