"""The playground app."""

from django.apps import AppConfig


class PlaygroundConfig(AppConfig):
    name = "inference.playground"
    label = "inference_playground"
