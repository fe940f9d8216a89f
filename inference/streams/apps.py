"""The Django app of stored streams."""

from django.apps import AppConfig


class StreamsConfig(AppConfig):
    """App of the stored events of streams."""

    name = "inference.streams"
    label = "inference_streams"
    verbose_name = "Streams"
