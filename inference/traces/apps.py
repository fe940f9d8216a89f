"""Traces as a Django app."""

from django.apps import AppConfig


class TracesConfig(AppConfig):
    """App of the stored spans."""

    name = "inference.traces"
    label = "inference_traces"
    verbose_name = "Traces"
